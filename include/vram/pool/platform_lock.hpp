// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_lock` is the lock that a platform wants to be told of, or a brief one.

#include <vram/base/brief_lock.hpp> // brief_lock

#include <concepts> // movable

namespace vram {

namespace detail {
template <class Platform>
struct platform_lock {
    using type = brief_lock;
};
template <class Platform>
    requires std::movable<typename Platform::lock>
struct platform_lock<Platform> {
    using type = typename Platform::lock;
};
} // namespace detail

/// `Platform::lock` where there is one: a machine that follows what happened before what must see
/// who hands what to whom. Else `brief_lock`.
template <class Platform>
using platform_lock = typename detail::platform_lock<Platform>::type;

} // namespace vram
