// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `quick_lists` are quick lists: freed blocks are cached uncoalesced for the next request of the
/// same size and stream.

#include <vram/base/bytes.hpp> // literals
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/block.hpp> // block, tag

#include <bit> // countr_zero
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Quick lists (Weinstock, 1976) of cached blocks, which are free, but in no bin (free list by
/// size) and not coalesced. Most programs request about the size that they have just freed, on the
/// same stream. Such a request then needs neither dividing, coalescing nor searching. A small
/// cached block may be slightly larger than the request. Of large blocks only the last is cached,
/// for a request of exactly its size, because more of them would keep free memory from coalescing.
/// Cached blocks are coalesced if a request cannot be met otherwise: see `drain`.
///
/// Failure   No function fails.
/// Threads   One thread at a time.
/// Cost      `take` and `put` cost a few instructions at any number of blocks. `drain` is linear in
///           the number of cached blocks.
class quick_lists {
public:
    /// Largest size of the blocks that are cached in lists.
    static constexpr std::size_t largest = 1_MiB;
    /// Largest size of the one large block that is cached outside of the lists.
    static constexpr std::size_t large_limit = 64_MiB;
    /// Cached blocks of this size or more are few, but hold most of the cached bytes: they are
    /// coalesced first.
    static constexpr std::size_t bulky = 128_KiB;
    /// Largest number of bytes by which a cached block may exceed a request if it comes from the
    /// list of a larger size class.
    static constexpr std::size_t slack = 28_KiB;

    quick_lists() = default;
    quick_lists(quick_lists&& other) noexcept { *this = static_cast<quick_lists&&>(other); }
    quick_lists& operator=(quick_lists&& other) noexcept {
        if (this == &other) { return *this; }
        for (std::size_t i = 0; i < ways; ++i) {
            ways_[i]       = other.ways_[i];
            other.ways_[i] = {};
        }
        large_ = std::exchange(other.large_, nullptr);
        return *this;
    }

    /// Removes and returns a cached block that the stream with the index `slot` has freed, or
    /// returns null. The block has at least `bytes` (at most `largest`) bytes. It is larger by at
    /// most an eighth plus the width of a size class.
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment) noexcept {
        way&              mine = ways_[slot % ways];
        std::size_t const i    = bins::of(bytes);
        block* const      b    = mine.first[i];
        if (b == nullptr || b->bytes < bytes) { return larger(mine, i, slot, bytes, alignment); }
        return usable(*b, slot, alignment) ? mine.pop(i) : nullptr;
    }
    /// Caches a block that the stream with the index `slot` has freed, in the list for `bytes` (at
    /// most `largest`), the rounded size of the request. The block may be larger. The size is an
    /// argument because the caller knows it without a load from the block, which would delay the
    /// next `take`.
    [[gnu::always_inline]] void put(block* b, std::size_t bytes, std::size_t slot) noexcept {
        b->now = block::state::cached;
        ways_[slot % ways].push(bins::of(bytes), b);
    }
    /// Caches a block of more than `largest` and at most `large_limit` bytes. Returns the large
    /// block that was cached before, or null.
    [[nodiscard]] block* put_large(block* b) noexcept {
        b->now = block::state::cached;
        return std::exchange(large_, b);
    }
    /// Removes and returns the cached large block, or null if there is none.
    [[nodiscard]] block* take_large() noexcept { return std::exchange(large_, nullptr); }
    [[nodiscard]] bool   has_large() const noexcept { return large_ != nullptr; }
    /// Returns true if the cached block was freed by the stream with the index `slot`, no captured
    /// graph may use it, and its address has the alignment.
    [[nodiscard]] static bool usable(block const& b, std::size_t slot,
                                     std::size_t alignment) noexcept {
        bool const aligned = alignment <= bins::granule || (b.address & (alignment - 1)) == 0;
        return b.slot == slot && b.epoch != tag::captured && aligned;
    }
    /// Removes the cached blocks from all lists for `least` bytes or more, and calls `give(block)`
    /// for each. Keeps the one large block that is cached outside of the lists (`take_large`).
    /// Returns true if blocks were removed.
    template <class Give>
    bool drain(std::size_t least, Give const& give) noexcept {
        bool any = false;
        for (way& each : ways_) {
            for (std::size_t i = each.next(bins::of(least)); i != lists; i = each.next(i)) {
                give(each.pop(i));
                any = true;
            }
        }
        return any;
    }

private:
    /// Number of lists; as an index it means "no list".
    static constexpr std::size_t lists = bins::of(largest) + 1;
    /// Number of sets of lists. A stream uses the set `slot % ways`. `take` looks only at the first
    /// block of a list: in one set, streams that take turns would hide each other's blocks.
    static constexpr std::size_t ways = 4;
    static_assert(slack + largest / 2 / bins::per_level + bins::granule <= 1 << 16,
                  "the largest excess of a block over its request fits into `block::slack`");

    /// One of the four sets of lists by size (a stream uses the set `slot % ways`), with a bitmap
    /// of the lists that may contain blocks. A list links its blocks by their member `previous`
    /// alone: their member `next` links them in the table of live and cached blocks by address.
    struct way {
        std::uint64_t map[lists / 64 + 1]{}; // a bit for each list that may contain a block
        block*        first[lists]{};

        /// Returns the index of the first list from `from` on that contains a block, or `lists`.
        [[nodiscard]] std::size_t next(std::size_t from) noexcept {
            std::size_t   word = from / 64;
            std::uint64_t bits = map[word] >> (from % 64) << (from % 64);
            for (;;) {
                while (bits == 0) {
                    if (++word == lists / 64 + 1) { return lists; }
                    bits = map[word];
                }
                std::size_t const i = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                if (first[i] != nullptr) { return i; }
                // The bit of an empty list is cleared during a search, because the fast path of
                // `take` does not clear the bit when it takes the last block of the list.
                map[word] &= ~(bits & -bits);
                bits &= bits - 1;
            }
        }
        void push(std::size_t i, block* b) noexcept {
            b->previous = first[i];
            first[i]    = b;
            map[i / 64] |= std::uint64_t{1} << (i % 64);
        }
        void forget_empty(std::size_t i) noexcept {
            map[i / 64] &= ~(std::uint64_t{first[i] == nullptr} << (i % 64));
        }
        block* pop(std::size_t i) noexcept {
            block* const b = first[i];
            first[i]       = static_cast<block*>(b->previous);
            return b;
        }
    };

    /// Slow path of `take`: the list with the index `i`, for this size, is empty or its first block
    /// is too small. Removes and returns the first block of the next list that is not empty, if
    /// that block is `usable` and exceeds the request by at most an eighth and `slack` bytes.
    /// Otherwise returns null.
    [[gnu::noinline]] static block* larger(way& mine, std::size_t i, std::size_t slot,
                                           std::size_t bytes, std::size_t alignment) noexcept {
        mine.forget_empty(i);
        i = mine.next(i + 1);
        if (i == lists) { return nullptr; }
        block* const      b     = mine.first[i];
        std::size_t const extra = bytes / 8 < slack ? bytes / 8 : slack;
        if (b->bytes - bytes > extra || !usable(*b, slot, alignment)) { return nullptr; }
        mine.pop(i);
        mine.forget_empty(i);
        return b;
    }

    way    ways_[ways];
    block* large_ = nullptr;
};

} // namespace detail
} // namespace vram
