// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cub_environment` and `cub_run` give the algorithms of CUB temporary storage from a stack.

#include <vram/base/call_site.hpp>
#include <vram/cuda/cuda_error.hpp> // cuda_check
#include <vram/cuda/cuda_platform.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp> // resource_for
#include <vram/interop/mr.hpp>          // as_mr, libcu++

#include <cuda_runtime_api.h> // cudaError_t

#include <concepts> // same_as
#include <cstddef>  // size_t
#include <utility>  // move

namespace vram {

/// Calls `algorithm` twice, as CUB requires: for the size of its temporary storage, and then with
/// storage from `memory`. For CUB of any version.
///
///     cub_run(memory, stream, [&](void* storage, std::size_t& bytes) {
///         return cub::DeviceReduce::Sum(storage, bytes, in, out, n, stream);
///     });
///
/// Failure   Throws `out_of_memory`, or `cuda_error` if the algorithm returns an error.
/// Threads   The rules are those of the resource.
/// Streams   The storage is allocated and freed on `s`, on which the algorithm must run.
/// Cost      One allocation and one free, if the algorithm needs storage.
template <class R, class Algorithm>
    requires resource_for<R, cuda_platform, device_accessible> &&
             requires(Algorithm& f, std::size_t& n) {
                 { f(static_cast<void*>(nullptr), n) } -> std::same_as<cudaError_t>;
             }
void cub_run(R& memory, cuda_stream_view s, Algorithm algorithm,
             call_site at = call_site::current()) {
    std::size_t bytes = 0;
    cuda_check(algorithm(static_cast<void*>(nullptr), bytes));
    buffer<R&> storage{memory, s, bytes, default_alignment, at};
    // With a null pointer the algorithm would only return the size again.
    static char none = 0;
    cuda_check(algorithm(bytes != 0 ? storage.data() : static_cast<void*>(&none), bytes));
}

#if CCCL_VERSION >= 3004000

/// An environment for an algorithm of CUB (CCCL 3.4 or newer): its stream, and the resource of its
/// temporary storage.
///
///     cub_environment const env{memory, stream};
///     cuda_check(cub::DeviceReduce::Sum(in, out, n, env));
///
/// It borrows a stack that cannot be copied, and keeps that of a `shared` handle alive.
///
/// Failure   Without memory, the algorithm returns `cudaErrorMemoryAllocation`.
/// Threads   The rules are those of the resource.
/// Streams   The storage is allocated and freed on the stream.
/// Cost      One allocation and one free, if the algorithm needs storage.
template <class R>
    requires resource_for<R, cuda_platform, device_accessible>
class cub_environment {
public:
    using memory_type = decltype(as_mr(std::declval<R&>())); ///< the handle that CUB copies

    /// Makes an environment with temporary storage from `memory` on the stream `s`.
    cub_environment(R& memory, cuda_stream_view s) noexcept : memory_{as_mr(memory)}, stream_{s} {}

    /// Returns the stream. CUB calls this function.
    [[nodiscard]] ::cuda::stream_ref query(::cuda::get_stream_t const&) const noexcept {
        return ::cuda::stream_ref{stream_.get()};
    }
    /// Returns a handle of the memory. CUB calls this function.
    [[nodiscard]] memory_type query(::cuda::mr::get_memory_resource_t const&) const noexcept {
        return memory_;
    }

private:
    memory_type      memory_;
    cuda_stream_view stream_;
};

#endif

} // namespace vram
