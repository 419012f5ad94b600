// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thrust_allocator` gives Thrust's vectors and algorithms the memory of a stack.

#include <vram/base/align.hpp>          // default_alignment, unsatisfiable
#include <vram/cuda/cuda_platform.hpp>  // cuda_platform
#include <vram/cuda/cuda_resource.hpp>  // the default of `current`
#include <vram/handle/any_resource.hpp> // any_resource
#include <vram/handle/current.hpp>      // current
#include <vram/handle/resource_ref.hpp> // resource_ref

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>

#include <algorithm>   // max
#include <cstddef>     // size_t, ptrdiff_t
#include <type_traits> // true_type
#include <utility>     // move

namespace vram {

namespace detail {
/// What a `thrust_allocator` borrows. That it has a platform is asked first: the rest asks, of
/// whatever Thrust tries, whether it can be copied, and so comes back here.
template <class R>
concept lent_stack = requires { typename R::platform; } &&
                     resource_for<R, cuda_platform, device_accessible> && !std::copyable<R>;
} // namespace detail

/// An allocator of device memory, on a stream.
///
///     thrust::device_vector<float, thrust_allocator<float>> v(n, {memory, stream});
///     thrust::sort(thrust::cuda::par(alloc).on(stream), v.begin(), v.end());   // its scratch, too
///
/// It holds a `shared` stack or an `any_resource` alive, and borrows a stack that is an lvalue.
/// Without a resource it borrows the current one of the current device.
///
/// Failure   `out_of_memory`, which is a `std::bad_alloc`; a count whose bytes overflow is one, too
/// Threads   as the resource
/// Streams   memory is taken and given back on `stream`; Thrust's algorithms are run on the same
/// Cost      one call through a pointer beside the resource's; copying it, one atomic operation
template <class Element>
class thrust_allocator {
public:
    using value_type      = Element;
    using pointer         = ::thrust::device_ptr<Element>;
    using const_pointer   = ::thrust::device_ptr<Element const>;
    using reference       = ::thrust::device_reference<Element>;
    using const_reference = ::thrust::device_reference<Element const>;
    using size_type       = std::size_t;
    using difference_type = std::ptrdiff_t;
    using any             = any_resource<cuda_platform, device_accessible>;
    using ref             = resource_ref<cuda_platform, device_accessible>;

    // The memory goes where the elements go.
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap            = std::true_type;

    template <class Other>
    struct rebind {
        using other = thrust_allocator<Other>;
    };

    thrust_allocator() : mr_{current<cuda_platform>::get()} {}
    thrust_allocator(any mr, cuda_stream_view s = {}) noexcept : mr_{std::move(mr)}, stream_{s} {}
    /// Borrows a stack, which outlives what is allocated.
    template <class R>
        requires detail::lent_stack<R>
    thrust_allocator(R& stack, cuda_stream_view s = {}) noexcept : mr_{ref{stack}}, stream_{s} {}
    template <class Other>
    thrust_allocator(thrust_allocator<Other> const& other) noexcept
        : mr_{other.upstream()}, stream_{other.get_stream()} {}

    [[nodiscard]] pointer allocate(size_type count) {
        std::size_t const bytes =
            count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
        return pointer{static_cast<Element*>(mr_.allocate(stream_, bytes, alignment))};
    }
    void deallocate(pointer p, size_type count) noexcept {
        mr_.deallocate(stream_, ::thrust::raw_pointer_cast(p), count * sizeof(Element), alignment);
    }

    [[nodiscard]] any const&       upstream() const noexcept { return mr_; }
    [[nodiscard]] cuda_stream_view get_stream() const noexcept { return stream_; }

    friend bool operator==(thrust_allocator const& a, thrust_allocator const& b) {
        return a.mr_ == b.mr_;
    }
    friend bool operator!=(thrust_allocator const& a, thrust_allocator const& b) {
        return !(a == b); // Thrust of CUDA 13.0 spells it so
    }

private:
    static constexpr std::size_t alignment = std::max(default_alignment, alignof(Element));

    any              mr_;
    cuda_stream_view stream_{};
};

} // namespace vram
