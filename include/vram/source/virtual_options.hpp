// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_options` are the sizes with which a virtual-memory resource is constructed.

#include <vram/base/bytes.hpp> // size literals

#include <cstddef> // size_t

namespace vram {

/// Creating, mapping and unmapping a piece of physical memory costs nearly the same for every size.
/// Large pieces therefore make growth cheap; small ones waste less and fit into more gaps.
struct virtual_options {
    std::size_t reserve =
        0; ///< reserved addresses in bytes; 0: four times the memory of the device
    std::size_t handle_size = 2_MiB; ///< bytes of one piece, rounded up to the granularity
    std::size_t keep = 0; ///< unused bytes that are kept for the next block: 0, or at least a piece
};

} // namespace vram
