// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `warm_blocks` keep what was given back last as it is, for the next request of the same size.

#include <vram/base/bytes.hpp> // literals
#include <vram/pool/bins.hpp>  // bins
#include <vram/pool/block.hpp> // block, tag

#include <bit>     // countr_zero
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange

namespace vram {

/// Blocks that rest: not handed out, in no bin, joined with nothing. Most programs ask again, on
/// the same stream, for about the size that they have just given back; then nothing is cut, joined
/// or looked for (the quick lists of Weinstock, 1976). A small block may be a little larger than
/// what is asked. Of large ones only the last rests, for just its own size: a few more would keep
/// what is free from joining. What rests is joined when nothing else will do: see `drain`.
///
/// Failure   never
/// Threads   one at a time
/// Cost      `take` and `put` a few instructions, at any number of blocks; `drain` that number
class warm_blocks {
public:
    static constexpr std::size_t largest     = 1_MiB;   ///< bytes of a small one, at most
    static constexpr std::size_t large_limit = 64_MiB;  ///< and of the large one
    static constexpr std::size_t bulky       = 128_KiB; ///< a few of these hold most of the bytes
    static constexpr std::size_t slack = 28_KiB; ///< no block of a later list is more too large

    warm_blocks() = default;
    warm_blocks(warm_blocks&& other) noexcept { *this = static_cast<warm_blocks&&>(other); }
    warm_blocks& operator=(warm_blocks&& other) noexcept {
        if (this == &other) { return *this; }
        for (std::size_t i = 0; i < ways; ++i) {
            ways_[i]       = other.ways_[i];
            other.ways_[i] = {};
        }
        large_ = std::exchange(other.large_, nullptr);
        return *this;
    }

    /// A block of this size, at most `largest`, or up to an eighth and what the sizes of one list
    /// differ by more, that the stream in `slot` has given back, or null.
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment) noexcept {
        way&              mine = ways_[slot % ways];
        std::size_t const i    = bins::of(bytes);
        block* const      b    = mine.first[i];
        if (b == nullptr || b->bytes < bytes) { return larger(mine, i, slot, bytes, alignment); }
        return usable(*b, slot, alignment) ? mine.pop(i) : nullptr;
    }
    /// Keeps a block that its `slot` has given back, among those of `bytes`, at most `largest`. It
    /// has them, and may have more: who knows them without looking spares the next `take` a wait.
    [[gnu::always_inline]] void put(block* b, std::size_t bytes, std::size_t slot) noexcept {
        b->now = block::state::resting;
        ways_[slot % ways].push(bins::of(bytes), b);
    }
    /// Keeps a block of more than `largest` bytes, and at most `large_limit`. Returns the one that
    /// was kept before, or null.
    [[nodiscard]] block* put_large(block* b) noexcept {
        b->now = block::state::resting;
        return std::exchange(large_, b);
    }
    /// That block, or null; it is kept no more.
    [[nodiscard]] block* take_large() noexcept { return std::exchange(large_, nullptr); }
    [[nodiscard]] bool   has_large() const noexcept { return large_ != nullptr; }
    /// Whether the stream in `slot` may have a block that rested.
    [[nodiscard]] static bool usable(block const& b, std::size_t slot,
                                     std::size_t alignment) noexcept {
        bool const aligned = alignment <= bins::granule || (b.address & (alignment - 1)) == 0;
        return b.slot == slot && b.epoch != tag::captured && aligned;
    }
    /// Calls `give(block)` with each small one that is in a list for at least `least` bytes, and
    /// keeps none of them. Whether there were any.
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
    static constexpr std::size_t lists = bins::of(largest) + 1; ///< also: "no list"
    static constexpr std::size_t ways  = 4;                     ///< for streams that take turns
    static_assert(slack + largest / 2 / bins::per_level + bins::granule <= 1 << 16,
                  "what a block has more than was asked, at most, has room in it");

    /// Lists by size, and which of them may hold something. Linked by `previous` alone: `next` is
    /// that of `block_table`, where the blocks stay.
    struct way {
        std::uint64_t map[lists / 64 + 1]{}; // one bit more than there are lists: never set
        block*        first[lists]{};

        /// The first list from `from` on that holds something, or `lists`.
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
                map[word] &= ~(bits & -bits); // `pop` leaves that to others
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

    /// `take` where the block that came last to the list `i` will not do.
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

} // namespace vram
