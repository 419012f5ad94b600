// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thrust_allocator` lets Thrust's vectors and algorithms use the memory of a stack.

#include <vram/base/align.hpp>                // default_alignment, unsatisfiable
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/sited.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/cuda/cuda_resource.hpp> // the default of `current`
#include <vram/handle/any_resource.hpp>
#include <vram/handle/current.hpp>
#include <vram/handle/resource_ref.hpp>

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system/cuda/pointer.h>

#include <algorithm> // max
#include <cstddef>
#include <type_traits> // true_type
#include <utility>

namespace vram {

namespace detail {
/// The type of a stack (a resource with its upstreams) that cannot be copied. A `thrust_allocator`
/// borrows such a stack. The test for `R::platform` comes first: it excludes Thrust's own types,
/// for which the other tests would be recursive.
template <class R, bool Universal>
concept lent_stack =
    requires { typename R::platform; } && resource_for<R, cuda_platform, device_accessible> &&
    (!Universal || has_property<R, host_accessible>) && !std::copyable<R>;

/// The pointers and handles of a `thrust_allocator`: of device memory, or of universal memory,
/// which the host accesses as well.
template <class Element, bool Universal>
struct thrust_types {
    using pointer         = ::thrust::device_ptr<Element>;
    using const_pointer   = ::thrust::device_ptr<Element const>;
    using reference       = ::thrust::device_reference<Element>;
    using const_reference = ::thrust::device_reference<Element const>;
    using any             = any_resource<cuda_platform, device_accessible>;
    using ref             = resource_ref<cuda_platform, device_accessible>;
};
template <class Element>
struct thrust_types<Element, true> {
    using pointer         = ::thrust::cuda_cub::universal_pointer<Element>;
    using const_pointer   = ::thrust::cuda_cub::universal_pointer<Element const>;
    using reference       = Element&;
    using const_reference = Element const&;
    using any             = any_resource<cuda_platform, device_accessible, host_accessible>;
    using ref             = resource_ref<cuda_platform, device_accessible, host_accessible>;
};

#if defined __CUDACC__
#define VRAM_THRUST_CALL __host__ __device__ // Thrust calls it on the host and on the device
#else
#define VRAM_THRUST_CALL
#endif

/// Execution policy that fills, copies and destroys a vector's elements on the stream of the
/// allocator. The host waits at the end.
struct thrust_system : ::thrust::cuda_cub::execute_on_stream_base<thrust_system> {
    using base = ::thrust::cuda_cub::execute_on_stream_base<thrust_system>;

    VRAM_THRUST_CALL thrust_system(cudaStream_t s = nullptr) : base{s} {}
    /// Makes an execution policy for the default stream from Thrust's device tag.
    VRAM_THRUST_CALL thrust_system(::thrust::cuda_cub::tag) : base{nullptr} {}

    // Thrust asks this function for the policy of a copy into a new vector. Returns `to`, which has
    // the stream of the vector. Otherwise Thrust would use the default stream.
    friend VRAM_THRUST_CALL thrust_system& select_system(::thrust::cuda_cub::tag&,
                                                         thrust_system& to) {
        return to;
    }
};
} // namespace detail

/// An allocator of device memory for Thrust, on a stream.
///
///     thrust::device_vector<float, thrust_allocator<float>> v(n, {memory, stream});
///     thrust::sort(thrust::cuda::par(alloc).on(stream), v.begin(), v.end());   // its scratch, too
///
/// Keeps a `shared` stack or an `any_resource` alive, and borrows a stack that is an lvalue.
/// Without arguments, it uses the current resource, `current<cuda_platform>::get()`. With
/// `Universal`, the host accesses the memory as well (`thrust_universal_allocator`).
///
/// Failure   Throws `out_of_memory`, which is a `std::bad_alloc`.
/// Threads   The rules are those of the resource.
/// Streams   Allocates, frees and constructs on `stream`. Thrust uses the default stream for other
///           operations, such as `v[i]` and algorithms without a policy: synchronize `stream`
///           before these. A raw `cudaStream_t` must outlive the container.
/// Cost      One call through a pointer besides that of the resource.
template <class Element, bool Universal = false>
class thrust_allocator {
    using types = detail::thrust_types<Element, Universal>;

public:
    using value_type      = Element;
    using pointer         = typename types::pointer;
    using const_pointer   = typename types::const_pointer;
    using reference       = typename types::reference;
    using const_reference = typename types::const_reference;
    using size_type       = std::size_t;
    using difference_type = std::ptrdiff_t;
    using any             = typename types::any;
    using ref             = typename types::ref;
    /// Thrust's execution policy, the type of `system()`.
    using system_type = detail::thrust_system;

    // If containers are assigned or swapped, so are their allocators: each block is freed by the
    // allocator that allocated it.
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap            = std::true_type;

    template <class Other>
    struct rebind {
        using other = thrust_allocator<Other, Universal>;
    };

    thrust_allocator()
        requires(!Universal)
        : mr_{current<cuda_platform>::get()} {}
    /// Makes an allocator that allocates from the resource in the handle `mr`, on the stream `s`.
    thrust_allocator(any mr, cuda_stream_view s = {})
        : mr_{std::move(mr)},
          stream_{s},
          held_{detail::hold_stream<cuda_platform>(s)},
          system_{s.get()} {
        detail::expect_resource(
            mr_, "thrust_allocator: the handle must hold a resource; it was moved from");
    }
    /// Makes an allocator that borrows `stack`, which must outlive the allocated memory.
    template <class R>
        requires detail::lent_stack<R, Universal>
    thrust_allocator(R& stack, cuda_stream_view s = {}) noexcept
        : mr_{ref{stack}},
          stream_{s},
          held_{detail::hold_stream<cuda_platform>(s)},
          system_{s.get()} {}
    template <class Other>
    thrust_allocator(thrust_allocator<Other, Universal> const& other) noexcept
        : mr_{other.mr_}, stream_{other.stream_}, held_{other.held_}, system_{other.system_} {}
    // A move copies the allocator, because a moved-from container still uses it. The copy functions
    // are not defaulted, because nvcc would also compile defaulted ones for the device.
    thrust_allocator(thrust_allocator const& other) noexcept
        : mr_{other.mr_}, stream_{other.stream_}, held_{other.held_}, system_{other.system_} {}
    thrust_allocator& operator=(thrust_allocator const& other) noexcept {
        mr_     = other.mr_;
        stream_ = other.stream_;
        held_   = other.held_;
        system_ = other.system_;
        return *this;
    }
    ~thrust_allocator() {}

    [[nodiscard]] pointer allocate(size_type count) {
        std::size_t const bytes =
            count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
        return pointer{static_cast<Element*>(sited{mr_}.allocate(stream_, bytes, alignment))};
    }
    void deallocate(pointer p, size_type count) noexcept {
        sited{mr_}.deallocate(stream_, ::thrust::raw_pointer_cast(p), count * sizeof(Element),
                              alignment);
    }

    [[nodiscard]] any const& upstream() const noexcept { return mr_; }
    /// Returns the stream on which the allocator allocates and frees.
    [[nodiscard]] cuda_stream_view get_stream() const noexcept { return stream_; }
    /// Returns the execution policy of Thrust for work on `get_stream()`. Thrust constructs and
    /// copies the elements of new containers with it.
    [[nodiscard]] VRAM_THRUST_CALL system_type& system() noexcept { return system_; }

    friend bool operator==(thrust_allocator const& a, thrust_allocator const& b) {
        return a.mr_ == b.mr_;
    }
    friend bool operator!=(thrust_allocator const& a, thrust_allocator const& b) {
        return !(a == b); // written out, because Thrust of CUDA 13.0 needs this operator
    }

private:
    template <class, bool>
    friend class thrust_allocator;

    static constexpr std::size_t alignment = std::max(default_alignment, alignof(Element));

    any              mr_;
    cuda_stream_view stream_{};
    /// Keeps the handle of `stream_` valid if the stream is destroyed before the container.
    detail::stream_hold<cuda_platform> held_{};
    system_type                        system_{};
};

#undef VRAM_THRUST_CALL

} // namespace vram
