// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_options` is how much address space a resource reserves, and in what pieces memory
/// comes.

#include <vram/base/bytes.hpp> // size literals

#include <cstddef> // size_t

namespace vram {

/// A piece costs the same to map whatever its size, so large ones are cheap to grow by (2.5 ms a
/// GiB in pieces of 20 MiB on an H200, 27 ms in pieces of 2 MiB), and small ones waste less and fit
/// into more holes.
struct virtual_options {
    std::size_t reserve     = 0;      ///< bytes of addresses; 0: four times the device's memory
    std::size_t handle_size = 20_MiB; ///< of one piece: rounded up to what the device maps in
    std::size_t keep        = 0;      ///< bytes of unused memory that stay here for the next block
};

} // namespace vram
