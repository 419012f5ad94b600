// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_options` is how much address space a resource reserves, and in what pieces memory
/// comes.

#include <vram/base/bytes.hpp> // size literals

#include <cstddef> // size_t

namespace vram {

/// A piece costs much the same to make, map and unmap whatever its size, so large ones are cheap to
/// grow by, and small ones waste less and fit into more holes.
struct virtual_options {
    std::size_t reserve     = 0;     ///< bytes of addresses; 0: four times the device's memory
    std::size_t handle_size = 2_MiB; ///< of one piece: rounded up to what the device maps in
    std::size_t keep        = 0;     ///< bytes of unused memory that stay here for the next block
};

} // namespace vram
