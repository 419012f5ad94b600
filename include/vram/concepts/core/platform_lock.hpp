// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_lock` is the lock type of a platform, or `brief_lock` if the platform has none.

#include <vram/base/core/brief_lock.hpp> // brief_lock

#include <concepts> // movable

namespace vram {
namespace detail {

template <class Platform>
struct find_platform_lock {
    using type = brief_lock;
};
template <class Platform>
    requires std::movable<typename Platform::lock>
struct find_platform_lock<Platform> {
    using type = typename Platform::lock;
};

/// The lock type of a platform. A simulated device provides `Platform::lock`, because it tracks
/// which thread happens before which. Other platforms use `brief_lock`.
template <class Platform>
using platform_lock = typename find_platform_lock<Platform>::type;

} // namespace detail
} // namespace vram
