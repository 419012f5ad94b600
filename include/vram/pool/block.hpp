// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block` is a pool's note about one piece of its memory.

#include <vram/pool/tags.hpp> // tags

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t, uint32_t

namespace vram {

/// Tags for which a block has no room itself.
struct tag_note {
    tags      what;
    tag_note* next = nullptr; ///< among the unused ones
};

/// The neighbours in a list.
struct links {
    links* next = nullptr;
    union {
        links*        previous = nullptr;
        std::uint64_t left; ///< while it is out of a private pool: what had been left there before
    };
};

/// A piece of a chunk. Notes live in host memory: the piece itself, which may be memory that no
/// host may touch, is never written. A note is one line of the cache; nearly always one stream, or
/// none, may still be using all of a free piece, and what is more than that is written elsewhere.
struct block : links { // in its bin; while it is out, or rests, in the chains that find it
    enum class state : std::uint8_t {
        live,    ///< handed out
        coming,  ///< on its way to who asked for it, who waits: nobody may give it back yet
        resting, ///< given back, kept as it is for the stream that gave it; or free, and set aside
        free,    ///< in a bin, for anybody to take
    };
    static constexpr std::uint32_t nobody  = ~std::uint32_t{0};     ///< uses it: it is clean
    static constexpr std::uint32_t several = ~std::uint32_t{0} - 1; ///< use parts of it: `note`
    // While it is handed out only `several` says something: `note` is what graphs keep of it.

    std::uintptr_t address = 0;
    std::size_t    bytes   = 0;
    block*         before  = nullptr; ///< the piece that ends where this one begins, same chunk
    block*         after   = nullptr; ///< the piece that begins where this one ends, same chunk
    union {
        std::uint64_t epoch = 0; ///< up to which `slot` may use it
        tag_note*     note;
    };
    std::uint32_t slot = nobody; ///< while not handed out: who may still be using all of it
    union {
        std::uint16_t slack = 0; ///< while handed out: bytes that the client did not ask for
        std::uint16_t bin;       ///< while free: where it is
    };
    std::uint8_t alignment : 6 = 0;     ///< that the client asked for: the power of two
    bool         bare : 1      = false; ///< free, and parts of it may have no memory behind them
    bool         apart : 1     = false; ///< it lies among blocks that are kept apart from others
    state        now           = state::live;

    [[nodiscard]] std::uintptr_t end() const noexcept { return address + bytes; }
    [[nodiscard]] void* pointer() const noexcept { return reinterpret_cast<void*>(address); }

    /// Who may still be using what.
    [[nodiscard]] tags waits_for() const noexcept {
        if (slot == nobody) { return {}; }
        if (slot == several) { return note->what; }
        return tags{{address, address + bytes, epoch, slot}};
    }
};

static_assert(sizeof(block) == 64);

} // namespace vram
