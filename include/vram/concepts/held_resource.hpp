// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `held_resource` checks that a handle that is passed on still holds a resource.

#include <vram/base/contract.hpp> // expects

#include <concepts> // same_as

namespace vram {

/// A handle of a resource: `holds_resource()` returns false if the handle was moved from and has
/// not been assigned since. `shared`, `any_resource` and `resource_ref` are such handles.
template <class R>
concept resource_handle = requires(R const& handle) {
    { handle.holds_resource() } -> std::same_as<bool>;
};

namespace detail {
/// Checks that `mr` holds a resource; called by each part that stores a resource. A resource that
/// is not a handle always does.
template <class R>
constexpr void expect_resource(R const& mr, char const* what) {
    if constexpr (resource_handle<R>) { expects(mr.holds_resource(), what); }
}
} // namespace detail

} // namespace vram
