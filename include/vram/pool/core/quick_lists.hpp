// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `quick_lists` caches freed blocks uncoalesced for the next request of the same size and stream.

#include <vram/base/bytes.hpp> // literals
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/block.hpp> // block, tag

#include <bit> // countr_zero
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Lists of cached blocks by size: freed blocks that are not coalesced, because most requests
/// repeat a size just freed on the same stream (quick lists: Weinstock, 1976). Of large blocks, at
/// most one is cached.
///
/// Threads   One thread at a time.
/// Cost      Constant; `drain` is linear in the number of blocks.
class quick_lists {
public:
    /// Largest size of the blocks that are cached in lists.
    static constexpr std::size_t largest = 1_MiB;
    /// Largest size in bytes of a large block that is cached, unless the pool sets another limit.
    static constexpr std::size_t large_limit = 64_MiB;
    /// Size in bytes from which cached blocks are preferred for coalescing (merging). A request
    /// that needs cached blocks to be coalesced may coalesce only these, and smaller ones if there
    /// are none.
    static constexpr std::size_t bulky = 128_KiB;
    /// Largest number of bytes by which a block from the list of a larger size class may exceed the
    /// request.
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

    /// Removes and returns a cached block of at least `bytes` bytes that was freed by the stream
    /// with the index `slot`. Returns null if a short search finds no such block.
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment) noexcept {
        way&              mine = ways_[slot % ways];
        std::size_t const i    = bins::of(bytes);
        block* const      b    = mine.first[i];
        if (b == nullptr || b->bytes < bytes) { return larger(mine, i, slot, bytes, alignment); }
        return usable(*b, slot, alignment) ? mine.pop(i) : nullptr;
    }
    /// Adds the block `b`, which the stream with the index `slot` freed, to the list for blocks of
    /// `bytes` bytes. The block may be larger than `bytes`.
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
    /// Returns true if the stream with the index `slot` freed the block, no captured graph may use
    /// the block, and the address of the block has the alignment.
    [[nodiscard]] static bool usable(block const& b, std::size_t slot,
                                     std::size_t alignment) noexcept {
        bool const aligned = alignment <= bins::granule || (b.address & (alignment - 1)) == 0;
        return b.slot == slot && b.epoch != tag::captured && aligned;
    }
    /// Removes the cached blocks of all lists for `least` bytes or more, and calls `give(block)`
    /// for each. Returns true if there were any.
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
    /// Number of lists in a set. `next` returns this number if it finds no block.
    static constexpr std::size_t lists = bins::of(largest) + 1;
    /// Number of sets of lists. The index of a stream selects its set. Streams that share a set can
    /// hide blocks from each other, because `take` looks only at the first block of a list.
    static constexpr std::size_t ways = 4;
    static_assert(slack + largest / 2 / bins::per_level + bins::granule <= 1 << 16,
                  "the largest excess of a block over its request fits into `block::slack`");

    /// A set of lists of cached blocks, one list for each size class. `block::previous` links the
    /// blocks, because `block::next` belongs to the table of blocks by address.
    struct way {
        std::uint64_t map[lists / 64 + 1]{}; // bit i is set if list i may contain a block
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
                // List `i` is empty, but its bit is still set, because `pop` does not clear bits.
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

    /// Slow path of `take`: looks at the first block of the next list above `i` that is not empty.
    /// Removes and returns this block, or returns null if it is too large or not `usable`. Returns
    /// null if all these lists are empty.
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
