// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expect_resource` checks that a handle that somebody passes on still holds a resource.

#include <vram/base/contract.hpp> // expects

#include <concepts> // same_as

namespace vram {

/// `holds_resource()`: returns false if the handle was moved from and has not been assigned since.
/// `shared`, `any_resource` and `resource_ref` have it.
template <class R>
concept resource_handle = requires(R const& handle) {
    { handle.holds_resource() } -> std::same_as<bool>;
};

namespace detail {
/// Every part that keeps a resource calls this when it is made. A resource that is not a handle
/// always holds.
template <class R>
constexpr void expect_resource(R const& mr, char const* what) {
    if constexpr (resource_handle<R>) { expects(mr.holds_resource(), what); }
}
} // namespace detail

} // namespace vram
