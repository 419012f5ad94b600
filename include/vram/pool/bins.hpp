// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bins` keep free blocks by size, so that one that fits is found without a search.

#include <vram/pool/block.hpp>      // block
#include <vram/pool/block_list.hpp> // block_list

#include <bit>     // bit_width, countr_zero
#include <cstddef> // size_t
#include <cstdint> // uint64_t, uint32_t
#include <utility> // exchange

namespace vram {

/// Lists of free blocks, 32 for every power of two, and bitmaps of those that are not empty: the
/// two-level scheme of TLSF (Masmano, Ripoll, Crespo, Real, 2004). A list holds sizes that differ
/// by at most 1/32, below 8 KiB one size only.
///
/// Threads   one at a time
/// Cost      constant; nothing is allocated
class bins {
public:
    static constexpr std::size_t granule   = 256; ///< every block is a multiple of it
    static constexpr std::size_t per_level = 32;  ///< lists for a power of two
    static constexpr std::size_t levels    = 44;  ///< below 2^56 bytes
    static constexpr std::size_t count     = levels * per_level; ///< also: "no bin"
    /// No block is larger.
    static constexpr std::size_t largest = (std::size_t{1} << 56) - granule;

    bins() = default;
    bins(bins&& other) noexcept { *this = static_cast<bins&&>(other); }
    bins& operator=(bins&& other) noexcept {
        if (this == &other) { return *this; }
        map_ = std::exchange(other.map_, 0);
        for (std::size_t l = 0; l < levels; ++l) { maps_[l] = std::exchange(other.maps_[l], 0); }
        for (std::size_t i = 0; i < count; ++i) { lists_[i].take(other.lists_[i]); }
        return *this;
    }

    /// The bin for blocks of `bytes`, a multiple of `granule` up to `largest`.
    [[nodiscard]] static constexpr std::size_t of(std::size_t bytes) noexcept {
        std::size_t const n = bytes / granule;
        if (n < per_level) { return n; } // level 0: one size each
        auto const level = static_cast<std::size_t>(std::bit_width(n)) - 5; // 32..63 is level 1
        return level * per_level + ((n >> (level - 1)) & (per_level - 1));
    }

    // Which bins are empty follows no pattern, so nothing here depends on it: a wrong guess would
    // cost more than all the rest.
    void insert(block* b) noexcept {
        std::size_t const i = of(b->bytes);
        lists_[i].insert(b);
        maps_[i / per_level] |= std::uint32_t{1} << (i % per_level);
        map_ |= std::uint64_t{1} << (i / per_level);
    }
    void remove(block* b) noexcept {
        std::size_t const i     = of(b->bytes);
        std::size_t const level = i / per_level;
        block_list::remove(b);
        std::uint32_t const gone = lists_[i].empty();
        maps_[level] &= ~(gone << (i % per_level));
        std::uint64_t const all_gone = maps_[level] == 0;
        map_ &= ~(all_gone << level);
    }

    /// The block, which is in a bin, has `bytes` now. Where that is the same bin it stays in its
    /// place there.
    void resize(block* b, std::size_t bytes) noexcept {
        if (of(b->bytes) == of(bytes)) {
            b->bytes = bytes;
            return;
        }
        remove(b);
        b->bytes = bytes;
        insert(b);
    }

    /// The first bin from `from` on that holds something, or `count`.
    [[nodiscard]] std::size_t next(std::size_t from) const noexcept {
        if (from >= count) { return count; }
        std::size_t const   level = from / per_level;
        std::uint32_t const here  = maps_[level] >> (from % per_level);
        if (here != 0) { return from + static_cast<std::size_t>(std::countr_zero(here)); }
        std::uint64_t const above = map_ >> level >> 1;
        if (above == 0) { return count; }
        std::size_t const found = level + 1 + static_cast<std::size_t>(std::countr_zero(above));
        return found * per_level + static_cast<std::size_t>(std::countr_zero(maps_[found]));
    }
    /// The block that was put into a bin last, or null; and the one before it, or null.
    [[nodiscard]] block* front(std::size_t bin) const noexcept { return lists_[bin].front(); }
    [[nodiscard]] block* after(std::size_t bin, block const* b) const noexcept {
        return lists_[bin].after(b);
    }

    /// The bin of the largest blocks, where there are any.
    [[nodiscard]] std::size_t last() const noexcept {
        auto const level = static_cast<std::size_t>(std::bit_width(map_)) - 1;
        return level * per_level + static_cast<std::size_t>(std::bit_width(maps_[level])) - 1;
    }
    /// The size of the largest block, or 0.
    [[nodiscard]] std::size_t largest_block() const noexcept {
        if (map_ == 0) { return 0; }
        std::size_t       most = 0;
        std::size_t const bin  = last();
        for (block const* b = front(bin); b != nullptr; b = after(bin, b)) {
            most = b->bytes > most ? b->bytes : most;
        }
        return most;
    }

private:
    std::uint64_t map_ = 0;        ///< levels that hold something
    std::uint32_t maps_[levels]{}; ///< lists of a level that hold something
    block_list    lists_[count];
};

} // namespace vram
