// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growth_options` holds the options of `growth_watch`.

#include <vram/base/requirements.hpp>

#include <cstdint>

namespace vram {

/// The bytes that a `growth_watch` reads at each step.
enum class growth_of : unsigned char {
    live,     ///< the live bytes of the resource
    reserved, ///< the bytes that the resource obtained from its upstream or the device
    /// All used bytes of the device on which the resource allocates, also those of other libraries
    /// and of other processes.
    device,
};

/// Options of `growth_watch`.
struct growth_options {
    growth_of of = growth_of::live; ///< the kind of bytes of which the growth is measured
    /// Least number of steps (calls of `growth_watch::step`) over which the memory must rise to be
    /// a growth. Should exceed the number of steps in which the program fills its caches.
    std::uint64_t steps = 32;
};

} // namespace vram
