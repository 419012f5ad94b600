// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `warm_blocks` keep what was given back last as it is, for the next request of the same size.

#include <vram/base/bytes.hpp> // literals
#include <vram/pool/block.hpp> // block, tag

#include <cstddef> // size_t
#include <utility> // exchange

namespace vram {

/// A few blocks that rest: not handed out, in no bin, joined with nothing. Most programs ask again,
/// on the same stream, for a size that they have just given back; then nothing is cut, joined or
/// looked for. Each place takes one block; a size and a stream have one place.
///
/// Threads   one at a time
/// Cost      a few instructions
class warm_blocks {
public:
    static constexpr std::size_t places  = 64;
    static constexpr std::size_t largest = 1_MiB; ///< larger ones are joined at once

    warm_blocks() = default;
    warm_blocks(warm_blocks&& other) noexcept { *this = static_cast<warm_blocks&&>(other); }
    warm_blocks& operator=(warm_blocks&& other) noexcept {
        for (std::size_t i = 0; i < places; ++i) { at_[i] = std::exchange(other.at_[i], nullptr); }
        count_ = std::exchange(other.count_, 0);
        return *this;
    }

    /// A block of just this size that the stream in `slot` has given back, or null.
    [[nodiscard]] block* take(std::size_t slot, std::size_t bytes, std::size_t alignment) noexcept {
        block*&      place = at_[of(slot, bytes)];
        block* const b     = place;
        if (b == nullptr || b->bytes != bytes || b->slot != slot || b->epoch == tag::captured ||
            (b->address & (alignment - 1)) != 0) {
            return nullptr;
        }
        place = nullptr;
        --count_;
        return b;
    }
    /// Keeps a block that its `slot` has given back. Returns one that has to go, or null.
    [[nodiscard]] block* put(block* b) noexcept {
        b->now                 = block::state::resting;
        block* const displaced = std::exchange(at_[of(b->slot, b->bytes)], b);
        count_ += displaced == nullptr;
        return displaced;
    }
    /// Calls `give(block)` with each, and keeps none. Whether there were any.
    template <class Give>
    bool drain(Give const& give) noexcept {
        if (count_ == 0) { return false; }
        count_ = 0;
        for (block*& place : at_) {
            if (place != nullptr) { give(std::exchange(place, nullptr)); }
        }
        return true;
    }

private:
    /// Fibonacci hashing, as in `address_map`.
    [[nodiscard]] static std::size_t of(std::size_t slot, std::size_t bytes) noexcept {
        static_assert(places == 64);
        return static_cast<std::size_t>((bytes + slot) * 0x9E3779B97F4A7C15U >> 58);
    }

    block*      at_[places]{};
    std::size_t count_ = 0;
};

} // namespace vram
