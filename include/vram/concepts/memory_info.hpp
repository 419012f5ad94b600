// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_info` is the free and the total memory of a device.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// The memory of a device in bytes. Other threads and processes change `free` at any time.
struct memory_info {
    std::size_t free  = 0;
    std::size_t total = 0;

    friend bool operator==(memory_info, memory_info) = default;
};

} // namespace vram
