// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stored_resource` is a resource as a member: `stored_resource<R>` stores it by value,
/// `stored_resource<R&>` borrows it.

#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/resource.hpp>           // synchronous_resource

#include <type_traits> // remove_reference_t
#include <utility>

namespace vram {
namespace detail {

/// A resource as a member of a buffer or allocator: `stored_resource<R>` stores the resource or
/// handle by value, and `stored_resource<R&>` refers to a resource that must live longer.
template <class R>
    requires synchronous_resource<std::remove_reference_t<R>>
class stored_resource {
public:
    using resource_type = R;

    explicit stored_resource(R mr) : mr_{std::move(mr)} {
        detail::expect_resource(mr_, "the handle must hold a resource; it was moved from");
    }

    [[nodiscard]] R&       get() noexcept { return mr_; }
    [[nodiscard]] R const& get() const noexcept { return mr_; }

    friend bool operator==(stored_resource const& a, stored_resource const& b) {
        return a.get() == b.get();
    }

private:
    [[no_unique_address]] R mr_;
};

template <class R>
class stored_resource<R&> {
public:
    using resource_type = R;

    explicit stored_resource(R& mr) : mr_{&mr} {
        detail::expect_resource(mr, "the handle must hold a resource; it was moved from");
    }

    [[nodiscard]] R& get() const noexcept { return *mr_; }

    friend bool operator==(stored_resource const& a, stored_resource const& b) {
        return a.get() == b.get();
    }

private:
    R* mr_; // a pointer, because a reference member would prevent assignment
};

} // namespace detail
} // namespace vram
