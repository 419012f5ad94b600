// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_options` are the sizes with which a virtual-memory resource is constructed.

#include <vram/base/bytes.hpp> // size literals

#include <cstddef>

namespace vram {

/// Options of a `virtual_source`. Large pieces of physical memory make growth cheap; small ones
/// waste less and fit into more gaps.
struct virtual_options {
    /// Bytes of addresses to reserve. 0 means four times the memory of the device.
    std::size_t reserve = 0;
    /// Size in bytes of each piece of physical memory that the resource creates, and of its pages.
    /// The size is rounded up to a multiple of the device's allocation granularity. 0 means that
    /// granularity.
    std::size_t handle_size = 2_MiB;
    /// Bytes of unused physical memory to keep for later blocks, rounded down to whole pieces. Must
    /// be 0 or at least the size of a piece (see `handle_size`).
    std::size_t keep = 0;
};

} // namespace vram
