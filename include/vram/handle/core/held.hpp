// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `held` is a resource as a member: `held<R>` stores it by value, `held<R&>` borrows it.

#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/resource.hpp>           // synchronous_resource

#include <type_traits> // remove_reference_t
#include <utility>     // move

namespace vram {
namespace detail {

/// The resource of a buffer or an allocator. It is stored by value if it is a handle (`shared`,
/// `resource_ref`, `any_resource`) or can be copied. It is stored as a reference if it lives
/// elsewhere and calls of it should stay direct.
///
/// Cost      None. An empty resource takes no space as a `[[no_unique_address]]` member.
template <class R>
    requires synchronous_resource<std::remove_reference_t<R>>
class held {
public:
    using resource_type = R;

    explicit held(R mr) : mr_{std::move(mr)} {
        detail::expect_resource(mr_, "the handle holds a resource: it was not moved from");
    }

    [[nodiscard]] R&       get() noexcept { return mr_; }
    [[nodiscard]] R const& get() const noexcept { return mr_; }

    friend bool operator==(held const& a, held const& b) { return a.get() == b.get(); }

private:
    [[no_unique_address]] R mr_;
};

template <class R>
class held<R&> {
public:
    using resource_type = R;

    explicit held(R& mr) : mr_{&mr} {
        detail::expect_resource(mr, "the handle holds a resource: it was not moved from");
    }

    [[nodiscard]] R& get() const noexcept { return *mr_; }

    friend bool operator==(held const& a, held const& b) { return a.get() == b.get(); }

private:
    R* mr_; // a pointer, so that its owner can be assigned
};

} // namespace detail
} // namespace vram
