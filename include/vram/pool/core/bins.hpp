// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bins` are free lists by size class, with bitmaps that find a large enough block without a
/// search.

#include <vram/pool/core/block.hpp>
#include <vram/pool/core/block_list.hpp>

#include <bit> // bit_cast, countl_zero, countr_zero
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Free lists of blocks by size, 32 for each power of two, with bitmaps of the lists that are not
/// empty: the two-level scheme of TLSF (Masmano, Ripoll, Crespo, Real, 2004).
///
/// Threads   One thread at a time.
/// Cost      Constant, except `largest_block`, which walks one list.
class bins {
public:
    /// The size of every block is a multiple of this number of bytes.
    static constexpr std::size_t granule   = 256;
    static constexpr std::size_t per_level = 32; ///< number of lists for each power of two
    /// Number of powers of two that have lists: for blocks from 2^8 to less than 2^56 bytes.
    static constexpr std::size_t levels = 48;
    /// Number of lists. As a list index it means "no list".
    static constexpr std::size_t count   = levels * per_level;
    static constexpr std::size_t largest = (std::size_t{1} << 56) - granule;

    bins() noexcept { end(); }
    bins(bins&& other) noexcept : bins{} { *this = static_cast<bins&&>(other); }
    bins& operator=(bins&& other) noexcept {
        if (this == &other) { return *this; }
        map_ = std::exchange(other.map_, 0);
        for (std::size_t w = 0; w < words; ++w) { maps_[w] = std::exchange(other.maps_[w], 0); }
        for (std::size_t i = 0; i < count; ++i) { lists_[i].take(other.lists_[i]); }
        other.end();
        return *this;
    }

    /// Returns the index of the free list for blocks of `bytes`, a multiple of `granule` from
    /// `granule` to `largest`.
    [[nodiscard]] static constexpr std::size_t of(std::size_t bytes) noexcept {
        // The exponent of the number as a `double` selects the power of two, and the top five
        // fraction bits select one of its 32 lists. On x86-64, `countl_zero` is slower.
        auto const n = static_cast<double>(static_cast<std::int64_t>(bytes / granule));
        return (std::bit_cast<std::uint64_t>(n) >> (52 - 5)) - first;
    }

    // `insert` adds a block to the list for its size. `remove` removes a block from its list. Both
    // update the bitmaps without a branch, because a mispredicted branch would be slow.
    void insert(block* b) noexcept { insert(b, of(b->bytes)); }
    /// Adds a block at the end of its list, so that it is found after all others of the list.
    void insert_last(block* b) noexcept {
        std::size_t const i = of(b->bytes);
        b->bin              = static_cast<std::uint16_t>(i);
        lists_[i].insert_last(b);
        set(i);
    }
    [[gnu::always_inline]] void remove(block* b) noexcept {
        // If `b` is the only block of its list, both its links point to the list's end node, and
        // `gone` is 1. Otherwise, `gone` is 0.
        std::uint64_t const gone = b->next == b->previous;
        block_list::remove(b);
        std::size_t const i    = b->bin;
        std::uint64_t&    word = maps_[i / 64];
        word &= ~(gone << (i % 64));
        std::uint64_t const all_gone = word == 0;
        map_ &= ~(all_gone << (i / 64));
    }

    /// Changes the size of a block in a list. If the block stays in the same list, it keeps its
    /// position.
    [[gnu::always_inline]] void resize(block* b, std::size_t bytes) noexcept {
        std::size_t const i = of(bytes);
        b->bytes            = bytes;
        if (i == b->bin) { return; }
        remove(b);
        insert(b, i);
    }

    /// Searches from the list with the index `from` upwards. Returns the index of the first list
    /// that is not empty, or `count` if there is none.
    [[nodiscard, gnu::always_inline]] std::size_t next(std::size_t from) const noexcept {
        std::size_t const   here  = from / 64;
        std::size_t const   later = lowest(map_ & (~std::uint64_t{1} << here));
        std::uint64_t const mine  = maps_[here] & (~std::uint64_t{0} << (from % 64));
        std::uint64_t const none  = std::uint64_t{0} - (mine == 0);
        return (here + ((later - here) & none)) * 64 + lowest(mine | (maps_[later] & none));
    }
    /// `front` returns the first block of the list `bin`, or null if the list is empty. `after`
    /// returns the block that follows `b` in this list, or null if `b` is the last one.
    [[nodiscard]] block* front(std::size_t bin) const noexcept { return lists_[bin].front(); }
    [[nodiscard]] block* after(std::size_t bin, block const* b) const noexcept {
        return lists_[bin].after(b);
    }

    /// Returns the index of the list of the largest blocks, or `count` if all lists are empty.
    [[nodiscard]] std::size_t last() const noexcept {
        for (std::size_t w = count / 64; w-- > 0;) {
            if (maps_[w] != 0) {
                return w * 64 + 63 - static_cast<std::size_t>(std::countl_zero(maps_[w]));
            }
        }
        return count;
    }
    /// Returns the size of the largest free block in the lists, or 0 if all lists are empty.
    [[nodiscard]] std::size_t largest_block() const noexcept {
        std::size_t const bin = last();
        if (bin == count) { return 0; }
        std::size_t most = 0;
        for (block const* b = front(bin); b != nullptr; b = after(bin, b)) {
            most = b->bytes > most ? b->bytes : most;
        }
        return most;
    }

private:
    /// Number of 64-bit words in `maps_`. The last two words belong to no list: one bit of each is
    /// always set, so that every search ends there without a bounds check.
    static constexpr std::size_t words = count / 64 + 2;
    static_assert(count % 64 == 0 && words <= 64);

    static_assert(per_level == 1 << 5);
    static constexpr std::size_t first = std::bit_cast<std::uint64_t>(1.0) >> (52 - 5);

    [[nodiscard]] static std::size_t lowest(std::uint64_t bits) noexcept {
        if (bits == 0) { __builtin_unreachable(); }
        return static_cast<std::size_t>(std::countr_zero(bits));
    }
    void set(std::size_t i) noexcept {
        maps_[i / 64] |= std::uint64_t{1} << (i % 64);
        map_ |= std::uint64_t{1} << (i / 64);
    }
    /// Sets one bit in each of the last two words of `maps_`. These bits belong to no list. The
    /// search of `next` ends there if it finds no list.
    void end() noexcept {
        set(count);
        set(count + 64);
    }
    void insert(block* b, std::size_t i) noexcept {
        b->bin = static_cast<std::uint16_t>(i);
        lists_[i].insert(b);
        set(i);
    }

    std::uint64_t map_ = 0;       ///< a bit for each word of `maps_` that is not zero
    std::uint64_t maps_[words]{}; ///< a bit for each list that is not empty
    block_list    lists_[count];
};

} // namespace detail
} // namespace vram
