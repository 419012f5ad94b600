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
    /// The function, or null if it was not found. Then `why` is the reason: no such function, or a
    /// driver that is too old for the version.
    Function                        call = nullptr;
    cudaDriverEntryPointQueryResult why{};
};

/// Returns the driver's function `name` with the parameters that it has in the CUDA version `since`
/// (12080 is CUDA 12.8): a later version may have other parameters under the name.
///
///     auto const found = cuda_entry_point<decltype(&::cuMemUnmap)>("cuMemUnmap", 10020);
///
/// Failure   Throws `cuda_error` if the runtime cannot search. If there is no such function, `call`
///           is null.
/// Threads   Any thread may call.
/// Streams   A function with a default stream uses the legacy one, or the thread's own one if the
///           program is compiled with per-thread default streams.
/// Cost      Microseconds.
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
