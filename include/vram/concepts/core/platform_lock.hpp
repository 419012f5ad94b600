// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_lock` is the lock type of a platform, or `biased_lock` if the platform has none.

#include <vram/base/core/biased_lock.hpp>

#include <concepts> // movable

namespace vram {
namespace detail {

template <class Platform>
struct find_platform_lock {
    using type = biased_lock;
};
template <class Platform>
    requires std::movable<typename Platform::lock>
struct find_platform_lock<Platform> {
    using type = typename Platform::lock;
};

/// The lock type of a platform: `Platform::lock` if there is one, as for the simulated device,
/// otherwise `biased_lock` (cheap for a thread that uses it repeatedly).
template <class Platform>
using platform_lock = typename find_platform_lock<Platform>::type;

} // namespace detail
} // namespace vram
