// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_info` is what a device says of its memory.

#include <cstddef> // size_t

namespace vram {

/// A device's memory in bytes. Others may take from it between the question and the next call.
struct memory_info {
    std::size_t free  = 0;
    std::size_t total = 0;

    friend bool operator==(memory_info, memory_info) = default;
};

} // namespace vram
