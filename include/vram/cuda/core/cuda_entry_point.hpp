// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_entry_point` finds a function of the driver by its name.

#include <vram/cuda/cuda_error.hpp> // cuda_check, cuda_exit

#include <cuda_runtime_api.h> // cudaGetDriverEntryPointByVersion

namespace vram {
namespace detail {

/// A function of the driver library libcuda, found at run time, so that programs need not link with
/// libcuda.
template <class Function>
struct cuda_entry {
    /// The function, or null if it was not found; `why` is then the reason.
    Function                        call = nullptr;
    cudaDriverEntryPointQueryResult why{};
};

/// Finds the driver's function `name`, as declared in CUDA version `since` (12080: CUDA 12.8).
/// Throws `cuda_error` if the search fails.
template <class Function>
[[nodiscard]] cuda_entry<Function> cuda_entry_point(char const* name, unsigned since) {
    void*                           found = nullptr;
    cudaDriverEntryPointQueryResult why{};
    cuda_check(cuda_exit::or_refused([&] {
        return cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &why);
    }));
    return {reinterpret_cast<Function>(found), why};
}

} // namespace detail
} // namespace vram
