// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `std_allocator` lets standard containers, such as `std::vector`, use the memory of a resource.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/concepts/property.hpp> // host_accessible
#include <vram/concepts/resource.hpp> // synchronous_resource
#include <vram/concepts/sited.hpp>
#include <vram/handle/core/stored_resource.hpp>

#include <cstddef>
#include <type_traits> // true_type, is_empty, remove_reference_t
#include <utility>

namespace vram {

/// A standard allocator over a resource of memory that the host can access.
///
///     shared pinned{pool{pinned_resource{}}};
///     std::vector<float, std_allocator<float, decltype(pinned)>> samples{pinned};
///
/// `R` is a copyable resource or handle by value, or `Resource&` for a resource that outlives the
/// container. A resource of device memory does not compile.
///
/// Failure   Throws the exceptions of the resource. `out_of_memory` is a `std::bad_alloc`.
/// Threads   The rules are those of the resource.
/// Streams   None: no stream may still use memory that the container frees.
/// Cost      None besides that of the resource.
template <class Element, class R>
    requires synchronous_resource<std::remove_reference_t<R>> &&
             has_property<std::remove_reference_t<R>, host_accessible>
class std_allocator {
public:
    using value_type    = Element;
    using resource_type = std::remove_reference_t<R>;

    // An assignment or a swap of containers also assigns or swaps their allocators, so that each
    // block is freed by the allocator that allocated it.
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap            = std::true_type;
    using is_always_equal                        = std::is_empty<R>;

    std_allocator()
        requires std::default_initializable<R>
        : mr_{R{}} {}
    /// Makes an allocator that allocates from `mr`. Stores a reference to `mr` if `R` is
    /// `Resource&`, otherwise `mr` itself.
    std_allocator(R mr) : mr_{std::forward<R>(mr)} {}
    template <class Other>
    std_allocator(std_allocator<Other, R> const& other) noexcept : mr_{other.mr_} {}
    // No move constructor: a container that was moved from continues to use its allocator.
    std_allocator(std_allocator const&)            = default;
    std_allocator& operator=(std_allocator const&) = default;
    ~std_allocator()                               = default;

    [[nodiscard]] Element* allocate(std::size_t count) {
        std::size_t const bytes =
            count > unsatisfiable / sizeof(Element) ? unsatisfiable : count * sizeof(Element);
        return static_cast<Element*>(sited{mr_.get()}.allocate_sync(bytes, alignof(Element)));
    }
    void deallocate(Element* p, std::size_t count) noexcept {
        sited{mr_.get()}.deallocate_sync(p, count * sizeof(Element), alignof(Element));
    }

    [[nodiscard]] resource_type& upstream() noexcept { return mr_.get(); }

    template <class Other>
    friend bool operator==(std_allocator const& a, std_allocator<Other, R> const& b) {
        return a.mr_ == std_allocator{b}.mr_; // converts `b`, because `b.mr_` is private
    }

private:
    template <class Other, class R2>
        requires synchronous_resource<std::remove_reference_t<R2>> &&
                 has_property<std::remove_reference_t<R2>, host_accessible>
    friend class std_allocator;

    [[no_unique_address]] detail::stored_resource<R> mr_;
};

} // namespace vram
