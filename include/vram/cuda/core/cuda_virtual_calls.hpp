// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_virtual_calls` are the driver's functions for virtual memory, found at run time.

#include <vram/cuda/core/cuda_entry_point.hpp> // cuda_entry_point, cuda_error

#include <cuda.h> // cuMemCreate and the others: their types alone

namespace vram {
namespace detail {

/// Functions of the driver library libcuda for virtual memory. They are looked up at run time, so
/// that programs need not link with libcuda. The function `here` returns them. It throws
/// `cuda_error` if the driver lacks one of them or is too old.
struct cuda_virtual_calls {
    decltype(&::cuMemGetAllocationGranularity) granularity   = nullptr;
    decltype(&::cuMemAddressReserve)           reserve       = nullptr;
    decltype(&::cuMemAddressFree)              release       = nullptr;
    decltype(&::cuMemCreate)                   create        = nullptr;
    decltype(&::cuMemRelease)                  destroy       = nullptr;
    decltype(&::cuMemMap)                      map           = nullptr;
    decltype(&::cuMemUnmap)                    unmap         = nullptr;
    decltype(&::cuMemSetAccess)                set_access    = nullptr;
    decltype(&::cuMemExportToShareableHandle)  export_handle = nullptr;

    /// Returns the process-wide object with the driver's functions for virtual memory. The first
    /// call looks up the functions. Throws `cuda_error` if one of them is not found.
    [[nodiscard]] static cuda_virtual_calls const& here() {
        // If `look_up` throws, `found` stays uninitialized, and the next call of `here` looks the
        // functions up again.
        static cuda_virtual_calls const found = look_up();
        return found;
    }

    [[nodiscard]] static cuda_virtual_calls look_up() {
        cuda_virtual_calls calls;
        find("cuMemGetAllocationGranularity", calls.granularity);
        find("cuMemAddressReserve", calls.reserve);
        find("cuMemAddressFree", calls.release);
        find("cuMemCreate", calls.create);
        find("cuMemRelease", calls.destroy);
        find("cuMemMap", calls.map);
        find("cuMemUnmap", calls.unmap);
        find("cuMemSetAccess", calls.set_access);
        find("cuMemExportToShareableHandle", calls.export_handle);
        return calls;
    }

    /// Converts a status of the driver to a status of the runtime. Both have equal numbers.
    [[nodiscard]] static cudaError_t status(CUresult result) noexcept {
        return static_cast<cudaError_t>(result);
    }

private:
    template <class Function>
    static void find(char const* name, Function& call) {
        // CUDA 10.2 is the first version with the driver's functions for virtual memory.
        constexpr unsigned since = 10020;
        auto const         found = cuda_entry_point<Function>(name, since);
        if (found.why == cudaDriverEntryPointVersionNotSufficent) {
            throw cuda_error{cudaErrorCallRequiresNewerDriver};
        }
        if (found.call == nullptr) { throw cuda_error{cudaErrorSymbolNotFound}; }
        call = found.call;
    }
};

static_assert(static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY) == cudaErrorMemoryAllocation);
static_assert(static_cast<int>(CUDA_ERROR_DEINITIALIZED) == cudaErrorCudartUnloading);
static_assert(static_cast<int>(CUDA_ERROR_NOT_SUPPORTED) == cudaErrorNotSupported);

} // namespace detail
} // namespace vram
