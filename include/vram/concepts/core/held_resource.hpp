// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `held_resource` checks that a handle, such as `shared`, refers to a resource when it is stored.

#include <vram/base/contract.hpp> // expects

#include <concepts> // same_as

namespace vram {
namespace detail {

/// A resource that refers to another one, such as `shared`. `holds_resource()` returns false after
/// the handle was moved from.
template <class R>
concept resource_handle = requires(R const& handle) {
    { handle.holds_resource() } -> std::same_as<bool>;
};

/// Checks (by `expects`, with the text `what`) that `mr` refers to a resource. A handle such as
/// `shared` refers to none after it was moved from.
template <class R>
constexpr void expect_resource(R const& mr, char const* what) {
    if constexpr (resource_handle<R>) { expects(mr.holds_resource(), what); }
}

} // namespace detail
} // namespace vram
