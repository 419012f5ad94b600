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

#include <concepts> // same_as, convertible_to
#include <cstddef>
#include <type_traits> // is_lvalue_reference_v, remove_reference_t
#include <utility>

namespace vram {

namespace detail {

template <class R>
concept cub_memory = resource_for<std::remove_reference_t<R>, cuda_platform, device_accessible>;
template <class Algorithm>
concept cub_algorithm = requires(Algorithm& f, std::size_t& n) {
    { f(static_cast<void*>(nullptr), n) } -> std::same_as<cudaError_t>;
};
template <class R, class S, class Algorithm>
concept cub_runnable = std::is_lvalue_reference_v<R> && cub_memory<R> &&
                       std::convertible_to<S, cuda_stream_view> && cub_algorithm<Algorithm>;

} // namespace detail

/// Calls `algorithm` twice, as CUB requires: for the size of its temporary storage, and then with
/// storage from `memory`.
///
///     cub_run(memory, stream, [&](void* storage, std::size_t& bytes) {
///         return cub::DeviceReduce::Sum(storage, bytes, in, out, n, stream);
///     });
///
/// Failure   Throws `out_of_memory`, or `cuda_error` if the algorithm returns an error.
/// Streams   The storage is allocated and freed on `s`, on which the algorithm must run.
/// Cost      One allocation and one free, if the algorithm needs storage.
template <class R, class Algorithm>
    requires detail::cub_memory<R> && detail::cub_algorithm<Algorithm>
void cub_run(R& memory, cuda_stream_view s, Algorithm algorithm,
             call_site at = call_site::current()) {
    std::size_t bytes = 0;
    cuda_check(algorithm(static_cast<void*>(nullptr), bytes));
    buffer<R&> storage{memory, s, bytes, default_alignment, at};
    // If the algorithm needs no storage, passes the address of `none`. With a null pointer, CUB
    // would only return the size again, and not run.
    static char none = 0;
    cuda_check(algorithm(bytes != 0 ? storage.data() : static_cast<void*>(&none), bytes));
}

/// Chosen for other arguments than a resource, a stream and an algorithm. Does not compile; the
/// error message states the remedy.
template <class R, class S, class Algorithm>
    requires(!detail::cub_runnable<R, S, std::remove_reference_t<Algorithm>>)
void cub_run(R&&, S&&, Algorithm&&) {
    constexpr bool memory  = detail::cub_memory<R>;
    constexpr bool swapped = !memory && detail::cub_memory<S>;
    constexpr bool stream  = std::convertible_to<S, cuda_stream_view>;
    static_assert(!swapped, "the resource comes first: write cub_run(memory, stream, algorithm)");
    static_assert(swapped || memory,
                  "cub_run needs a stream-ordered resource that devices can access: write "
                  "stream_ordered<cuda_resource>, or a pool over it");
    static_assert(!memory || std::is_lvalue_reference_v<R>,
                  "cub_run borrows the resource, which must outlive the work of the stream: give "
                  "it a name");
    static_assert(!memory || stream,
                  "the second argument of cub_run is a stream of CUDA: write cub_run(memory, "
                  "stream, algorithm)");
    static_assert(!memory || !stream || detail::cub_algorithm<std::remove_reference_t<Algorithm>>,
                  "cub_run calls the algorithm with temporary storage: write [&](void* storage, "
                  "std::size_t& bytes) { return cub::DeviceReduce::Sum(storage, bytes, ...); }");
}

#if CCCL_VERSION >= 3004000

/// An environment for an algorithm of CUB (CCCL 3.4 or newer): its stream, and the resource of its
/// temporary storage. Borrows a stack that cannot be copied, and keeps that of a `shared` handle
/// alive.
///
///     cub_environment const env{memory, stream};
///     cuda_check(cub::DeviceReduce::Sum(in, out, n, env));
///
/// Failure   Without memory, the algorithm returns `cudaErrorMemoryAllocation`.
/// Streams   The storage is allocated and freed on the stream.
/// Cost      One allocation and one free, if the algorithm needs storage.
template <class R>
    requires resource_for<R, cuda_platform, device_accessible>
class cub_environment {
public:
    /// Type of the object through which CUB allocates: a view of the stack if `R` cannot be copied,
    /// or a copy of the handle if `R` is a handle.
    using memory_type = decltype(as_mr(std::declval<R&>()));

    /// Makes an environment with temporary storage from `memory` on the stream `s`.
    cub_environment(R& memory, cuda_stream_view s) noexcept : memory_{as_mr(memory)}, stream_{s} {}

    /// Returns the stream. CUB calls this function.
    [[nodiscard]] ::cuda::stream_ref query(::cuda::get_stream_t const&) const noexcept {
        return ::cuda::stream_ref{stream_.get()};
    }
    /// Called by CUB. Returns a handle of the resource from which CUB allocates temporary memory.
    [[nodiscard]] memory_type query(::cuda::mr::get_memory_resource_t const&) const noexcept {
        return memory_;
    }

private:
    memory_type      memory_;
    cuda_stream_view stream_;
};

#endif

} // namespace vram
