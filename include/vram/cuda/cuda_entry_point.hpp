// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_entry_point` finds a function of the driver by its name.

#include <vram/cuda/cuda_error.hpp> // cuda_check, cuda_exit

#include <cuda_runtime_api.h> // cudaGetDriverEntryPointByVersion

namespace vram {

/// What libcuda, which nobody needs to link with for it, has under a name.
template <class Function>
struct cuda_entry {
    Function                        call = nullptr; ///< null: `why`
    cudaDriverEntryPointQueryResult why{};
};

/// Looks up the function `name` as it is since CUDA `since` (12.8 is 12080).
///
///     auto const found = cuda_entry_point<decltype(&::cuMemUnmap)>("cuMemUnmap", 10020);
///
/// Failure   `cuda_error` where CUDA cannot be asked; that there is no such function is an answer
/// Threads   any
/// Streams   a name that means the default stream is the legacy one's, or the thread's own where
///           the program is compiled so
/// Cost      microseconds
template <class Function>
[[nodiscard]] cuda_entry<Function> cuda_entry_point(char const* name, unsigned since) {
    void*                           found = nullptr;
    cudaDriverEntryPointQueryResult why{};
    cuda_check(cuda_exit::or_refused([&] {
        return cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &why);
    }));
    return {reinterpret_cast<Function>(found), why};
}

} // namespace vram
