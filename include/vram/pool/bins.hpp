// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bins` keep free blocks by size, so that one that fits is found without a search.

#include <vram/pool/block.hpp>      // block
#include <vram/pool/block_list.hpp> // block_list

#include <bit>     // bit_cast, countl_zero, countr_zero
#include <cstddef> // size_t
#include <cstdint> // int64_t, uint64_t, uint16_t
#include <utility> // exchange

namespace vram {

/// Lists of free blocks, 32 for every power of two, and bitmaps of those that are not empty: the
/// two-level scheme of TLSF (Masmano, Ripoll, Crespo, Real, 2004). A list holds sizes that differ
/// by at most 1/32, below 16 KiB not at all. A block in a bin knows which.
///
/// Threads   one at a time
/// Cost      constant; nothing is allocated
class bins {
public:
    static constexpr std::size_t granule   = 256; ///< every block is a multiple of it
    static constexpr std::size_t per_level = 32;  ///< lists for a power of two
    static constexpr std::size_t levels    = 48;  ///< below 2^56 bytes
    static constexpr std::size_t count     = levels * per_level; ///< also: "no bin"
    /// No block is larger.
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

    /// The bin for blocks of `bytes`, a multiple of `granule` from one up to `largest`.
    [[nodiscard]] static constexpr std::size_t of(std::size_t bytes) noexcept {
        // What a double keeps of a number is just this: its power of two, and the bits after it.
        // (The instruction that counts leading zeros waits, on x86-64, for whatever was in the
        // register that it writes to; a pool that took 10 ns took 15.)
        auto const n = static_cast<double>(static_cast<std::int64_t>(bytes / granule));
        return (std::bit_cast<std::uint64_t>(n) >> (52 - 5)) - first;
    }

    // Which bins are empty follows no pattern, so nothing here depends on it: a wrong guess would
    // cost more than all the rest.
    void insert(block* b) noexcept { insert(b, of(b->bytes)); }
    /// The same, to be found after all others of its bin.
    void insert_last(block* b) noexcept {
        std::size_t const i = of(b->bytes);
        b->bin              = static_cast<std::uint16_t>(i);
        lists_[i].insert_last(b);
        set(i);
    }
    [[gnu::always_inline]] void remove(block* b) noexcept {
        // The last of a ring has the ring's own links on both sides.
        std::uint64_t const gone = b->next == b->previous;
        block_list::remove(b);
        std::size_t const i    = b->bin;
        std::uint64_t&    word = maps_[i / 64];
        word &= ~(gone << (i % 64));
        std::uint64_t const all_gone = word == 0;
        map_ &= ~(all_gone << (i / 64));
    }

    /// The block, which is in a bin, has `bytes` now. Where that is the same bin it stays in its
    /// place there.
    [[gnu::always_inline]] void resize(block* b, std::size_t bytes) noexcept {
        std::size_t const i = of(bytes);
        b->bytes            = bytes;
        if (i == b->bin) { return; }
        remove(b);
        insert(b, i);
    }

    /// The first bin from `from` on that holds something, or `count`.
    [[nodiscard, gnu::always_inline]] std::size_t next(std::size_t from) const noexcept {
        std::size_t const   here  = from / 64;
        std::size_t const   later = lowest(map_ & (~std::uint64_t{1} << here));
        std::uint64_t const mine  = maps_[here] & (~std::uint64_t{0} << (from % 64));
        std::uint64_t const none  = std::uint64_t{0} - (mine == 0); // all bits, or no bit
        return (here + ((later - here) & none)) * 64 + lowest(mine | (maps_[later] & none));
    }
    /// The block that was put into a bin last, or null; and the one before it, or null.
    [[nodiscard]] block* front(std::size_t bin) const noexcept { return lists_[bin].front(); }
    [[nodiscard]] block* after(std::size_t bin, block const* b) const noexcept {
        return lists_[bin].after(b);
    }

    /// The bin of the largest blocks, or `count`.
    [[nodiscard]] std::size_t last() const noexcept {
        for (std::size_t w = count / 64; w-- > 0;) {
            if (maps_[w] != 0) {
                return w * 64 + 63 - static_cast<std::size_t>(std::countl_zero(maps_[w]));
            }
        }
        return count;
    }
    /// The size of the largest block, or 0.
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
    /// After the words of the bins: one for `count`, whose bit is always set, and one whose bit in
    /// `map_` is.
    static constexpr std::size_t words = count / 64 + 2;
    static_assert(count % 64 == 0 && words <= 64);

    static_assert(per_level == 1 << 5);
    static constexpr std::size_t first = std::bit_cast<std::uint64_t>(1.0) >> (52 - 5);

    /// Of a word that is not zero.
    [[nodiscard]] static std::size_t lowest(std::uint64_t bits) noexcept {
        if (bits == 0) { __builtin_unreachable(); }
        return static_cast<std::size_t>(std::countr_zero(bits));
    }
    void set(std::size_t i) noexcept {
        maps_[i / 64] |= std::uint64_t{1} << (i % 64);
        map_ |= std::uint64_t{1} << (i / 64);
    }
    /// Whoever looks for a word that is not zero finds one.
    void end() noexcept {
        set(count);
        set(count + 64);
    }
    void insert(block* b, std::size_t i) noexcept {
        b->bin = static_cast<std::uint16_t>(i);
        lists_[i].insert(b);
        set(i);
    }

    std::uint64_t map_ = 0;       ///< words that are not zero
    std::uint64_t maps_[words]{}; ///< lists that hold something
    block_list    lists_[count];
};

} // namespace vram
