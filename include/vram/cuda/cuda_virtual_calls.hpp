// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_virtual_calls` are the driver's calls of virtual memory, found at run time.

#include <vram/cuda/cuda_entry_point.hpp> // cuda_entry_point, cuda_error

#include <cuda.h> // cuMemCreate and the others: their types alone

namespace vram {

/// Entry points of libcuda, which nobody needs to link with for them.
///
///     CUresult const status = cuda_virtual_calls::here().unmap(at, bytes);
///
/// Failure   `cuda_error`: cudaErrorSymbolNotFound where the driver has no such call,
///           cudaErrorCallRequiresNewerDriver where it has not got it yet
/// Threads   any
/// Cost      looked up once in a process; then the call itself
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

    /// The calls of this process.
    [[nodiscard]] static cuda_virtual_calls const& here() {
        static cuda_virtual_calls const found = look_up(); // tried again where it threw
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

    /// The driver's errors have the runtime's numbers.
    [[nodiscard]] static cudaError_t status(CUresult result) noexcept {
        return static_cast<cudaError_t>(result);
    }

private:
    template <class Function>
    static void find(char const* name, Function& call) {
        constexpr unsigned since = 10020; // all of them came with CUDA 10.2
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

} // namespace vram
