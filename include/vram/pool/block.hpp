// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block` is a pool's note about one piece of its memory.

#include <vram/pool/tags.hpp> // tags

#include <cstddef> // size_t
#include <cstdint> // uintptr_t

namespace vram {

/// A piece of a chunk, handed out or free. Notes live in host memory: the piece itself, which may
/// be memory that no host may touch, is never written.
struct block {
    std::uintptr_t address = 0;
    std::size_t    bytes   = 0;
    block*      before = nullptr; ///< the piece that ends where this one begins, in the same chunk
    block*      after  = nullptr; ///< the piece that begins where this one ends, in the same chunk
    block*      next   = nullptr; ///< in its bin, or among the unused notes
    block*      previous  = nullptr; ///< in its bin
    std::size_t requested = 0;       ///< what the client asked for; 0 while the piece is free
    std::size_t alignment = 0;       ///< what the client asked for
    bool        free      = false;   ///< in a bin, for anybody to take
    tags        waits_for;           ///< while free: who may still be using it

    [[nodiscard]] std::uintptr_t end() const noexcept { return address + bytes; }
    [[nodiscard]] void* pointer() const noexcept { return reinterpret_cast<void*>(address); }
};

} // namespace vram
