// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thrust_universal_allocator` and `thrust_host_allocator` are for Thrust's vectors of memory that
/// the host accesses.

#include <vram/base/align.hpp> // default_alignment, unsatisfiable
#include <vram/concepts/sited.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/interop/thrust_allocator.hpp>

#include <algorithm> // max
#include <concepts>  // copyable
#include <cstddef>
#include <type_traits> // true_type
#include <utility>

namespace vram {

namespace detail {
/// The type of a stream-ordered resource that cannot be copied, and that has memory for the host. A
/// `thrust_host_allocator` borrows such a resource, which must outlive the allocator.
template <class R>
concept lent_host_stack = requires { typename R::platform; } &&
                          resource_for<R, cuda_platform, host_accessible> && !std::copyable<R>;
} // namespace detail

/// An allocator of managed or pinned memory for a vector that kernels and the host access, with the
/// rules of `thrust_allocator`.
///
///     pool<stream_ordered<managed_resource>> memory;
///     thrust::device_vector<int, thrust_universal_allocator<int>> v(n, {memory, stream});
///     int const first = v[0]; // a reference to the memory itself, as of thrust::universal_vector
///
/// Streams   The host accesses elements only after the work of all streams that write them.
template <class Element>
using thrust_universal_allocator = thrust_allocator<Element, true>;

/// An allocator of pinned memory for `thrust::host_vector`: copies from and to it run at full
/// speed. Keeps a `shared` stack or an `any_resource` alive, and borrows a stack that is an lvalue.
///
///     shared pinned{pool{pinned_resource{}}};
///     thrust::host_vector<int, thrust_host_allocator<int>> staged(n, {pinned});
///
/// Failure   Throws `out_of_memory`, which is a `std::bad_alloc`.
/// Threads   The rules are those of the resource.
/// Streams   The vector frees its memory without a stream, so no copy may still use it.
template <class Element>
class thrust_host_allocator {
public:
    using value_type = Element;
    using any        = any_resource<cuda_platform, host_accessible>;
    using ref        = resource_ref<cuda_platform, host_accessible>;

    // If containers are assigned or swapped, so are their allocators: each block is freed by the
    // allocator that allocated it.
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap            = std::true_type;

    /// Makes an allocator that allocates from the resource of `mr`, an `any_resource`.
    thrust_host_allocator(any mr) : mr_{std::move(mr)} {
        detail::expect_resource(
            mr_, "thrust_host_allocator: the handle must hold a resource; it was moved from");
    }
    /// Makes an allocator that shares the stack (a resource with its upstreams) of `handle`.
    template <class R>
    thrust_host_allocator(shared<R> const& handle) : thrust_host_allocator{any{handle}} {}
    /// Makes an allocator that borrows `stack`, which must outlive the allocated memory.
    template <class R>
        requires detail::lent_host_stack<R>
    thrust_host_allocator(R& stack) noexcept : mr_{ref{stack}} {}
    template <class Other>
    thrust_host_allocator(thrust_host_allocator<Other> const& other) noexcept : mr_{other.mr_} {}
    // The copy functions are not defaulted. nvcc would also compile defaulted ones for the device,
    // where the handle `mr_` cannot be copied.
    thrust_host_allocator(thrust_host_allocator const& other) noexcept : mr_{other.mr_} {}
    thrust_host_allocator& operator=(thrust_host_allocator const& other) noexcept {
        mr_ = other.mr_;
        return *this;
    }
    ~thrust_host_allocator() {}

    [[nodiscard]] Element* allocate(std::size_t count) {
        std::size_t const bytes =
            count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
        return static_cast<Element*>(sited{mr_}.allocate_sync(bytes, alignment));
    }
    void deallocate(Element* p, std::size_t count) noexcept {
        sited{mr_}.deallocate_sync(p, count * sizeof(Element), alignment);
    }

    [[nodiscard]] any const& upstream() const noexcept { return mr_; }

    friend bool operator==(thrust_host_allocator const& a, thrust_host_allocator const& b) {
        return a.mr_ == b.mr_;
    }
    friend bool operator!=(thrust_host_allocator const& a, thrust_host_allocator const& b) {
        return !(a == b);
    }

private:
    template <class>
    friend class thrust_host_allocator;

    static constexpr std::size_t alignment = std::max(default_alignment, alignof(Element));

    any mr_;
};

} // namespace vram
