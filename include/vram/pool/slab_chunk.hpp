// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_chunk` is memory cut into blocks of one size, with a note for each of them.

#include <vram/pool/heap_array.hpp> // heap_array

#include <bit>     // countr_zero
#include <cstddef> // size_t, byte
#include <cstdint> // uint64_t, uint32_t

namespace vram {

/// Free blocks that nobody uses any more are bits in a map, the lowest taken first. Where the other
/// free ones are is their owner's to know; the notes have the links for it.
///
/// Failure   `std::bad_alloc` from the constructor; nothing else fails
/// Threads   one at a time
/// Cost      constant, but for `take_lowest`, which goes over the words of the map that are empty
///           once for all
struct slab_chunk {
    /// Where a block is.
    enum class place : unsigned char {
        clean,   ///< free, for anybody
        waiting, ///< free, a stream may still use it
        kept,    ///< free, a captured graph uses it
        out      ///< handed out
    };
    struct note {
        note*       older   = nullptr; ///< in the list of its stream
        note*       newer   = nullptr;
        void*       address = nullptr;
        slab_chunk* home    = nullptr;
        union {
            std::uint64_t epoch = 0; ///< while it waits: until when
            std::size_t   asked;     ///< while it is out: how much was asked for
        };
        std::uint32_t slot  = 0; ///< while it waits: for whom
        unsigned char shift = 0; ///< while it is out: the alignment asked for, as a power of two
        place         at    = place::clean;
        bool          lent  = false; ///< while it is out: a graph keeps it, the one of `slot`
    };

    /// `size` bytes at `at`, blocks of `stride`; all of them are out.
    slab_chunk(void* at, std::size_t size, std::size_t stride)
        : base{at}, bytes{size}, out{size / stride} {
        notes.reserve(out);
        map.reserve((out + 63) / 64);
        for (std::size_t i = 0; i < out; i += 64) { map.push(std::uint64_t{0}); }
        for (std::size_t i = 0; i < out; ++i) {
            note& n   = notes.push();
            n.address = static_cast<std::byte*>(at) + i * stride;
            n.home    = this;
            n.at      = place::out;
        }
    }
    slab_chunk(slab_chunk&&) = delete; ///< notes know where it is

    /// The clean block with the lowest address; there is one. It is out then.
    note* take_lowest() noexcept {
        while (map[first_word] == 0) { ++first_word; }
        std::uint64_t&    word = map[first_word];
        std::size_t const i    = 64 * first_word + static_cast<std::size_t>(std::countr_zero(word));
        word &= word - 1;
        --clean;
        return hand_out(notes[i]);
    }
    /// A block that is free, and in no list any more, is out.
    note* hand_out(note& n) noexcept {
        n.at = place::out;
        ++out;
        return &n;
    }
    /// A block that is out is clean.
    void make_clean(note& n) noexcept {
        --out;
        auto const i = static_cast<std::size_t>(&n - notes.begin());
        map[i / 64] |= std::uint64_t{1} << (i % 64);
        if (i / 64 < first_word) { first_word = i / 64; }
        n.at = place::clean;
        ++clean;
    }
    /// A block that is out waits for the stream in `slot`, or is kept for it.
    void make_wait(note& n, std::size_t slot, std::uint64_t epoch,
                   place where = place::waiting) noexcept {
        --out;
        n.slot  = static_cast<std::uint32_t>(slot);
        n.epoch = epoch;
        n.at    = where;
    }
    /// Whether a graph keeps some of it. Cost: a walk over the blocks, where some wait.
    [[nodiscard]] bool keeps() const noexcept {
        if (waiting() == 0) { return false; }
        for (note const& n : notes) {
            if (n.at == place::kept) { return true; }
        }
        return false;
    }
    /// Blocks that wait or are kept.
    [[nodiscard]] std::size_t waiting() const noexcept { return notes.size() - out - clean; }

    void*                     base;
    std::size_t               bytes;
    std::size_t               out; ///< blocks handed out
    std::size_t               clean      = 0;
    std::size_t               first_word = 0;       ///< the words of the map before it are empty
    std::size_t               position   = 0;       ///< among the chunks
    slab_chunk*               beside     = nullptr; ///< begins in the same stretch of addresses
    slab_chunk*               next       = nullptr; ///< among those with clean blocks
    slab_chunk*               previous   = nullptr;
    heap_array<note>          notes;
    heap_array<std::uint64_t> map; ///< a bit for every clean block
};

} // namespace vram
