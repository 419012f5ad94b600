// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_cache` keeps freed blocks of a pool in quick lists, and coalesces them when needed.

#include <vram/pool/core/block_heaps.hpp>
#include <vram/pool/core/live_counts.hpp>
#include <vram/pool/core/quick_lists.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// The blocks of a pool, and its quick lists of cached blocks: freed, and kept for the next request
/// of their size. `is_complete(use)` tells if a pending use by a stream is complete.
///
/// Threads   One thread at a time.
template <bool InPlace>
class block_cache {
public:
    /// `apart`: small blocks have separate chunks. `large_limit`: size up to which a freed large
    /// block (above `quick_lists::largest`) is cached; 0: none is cached.
    block_cache(bool apart, std::size_t large_limit) noexcept
        : heaps_{apart}, large_limit_{large_limit} {}
    block_cache(block_cache&& other) noexcept : block_cache{true, 0} { *this = std::move(other); }
    block_cache& operator=(block_cache&& other) noexcept {
        heaps_       = std::move(other.heaps_);
        quick_       = std::move(other.quick_);
        large_limit_ = other.large_limit_;
        return *this;
    }

    [[nodiscard]] block_heaps<InPlace>&       heaps() noexcept { return heaps_; }
    [[nodiscard]] block_heaps<InPlace> const& heaps() const noexcept { return heaps_; }

    /// Removes and returns a cached block of this size or slightly more that the stream with the
    /// index `slot` has freed, or returns null.
    template <class IsComplete>
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment,
                                                  IsComplete  is_complete) noexcept {
        if (bytes <= quick_lists::largest) [[likely]] {
            return quick_.take(slot, bytes, alignment);
        }
        return reuse_large(slot, bytes, alignment, is_complete);
    }
    /// Caches a freed block for requests of `bytes` by the stream with the index `slot`. For
    /// `bytes` above `quick_lists::largest`, `cache_large` decides if it is cached or coalesced.
    template <class IsComplete>
    [[gnu::always_inline]] void put(block* b, std::size_t bytes, std::size_t slot,
                                    live_counts const& counts, IsComplete is_complete) noexcept {
        if (bytes > quick_lists::largest) [[unlikely]] {
            cache_large(b, counts, is_complete);
        } else {
            quick_.put(b, bytes, slot);
        }
    }
    /// Moves the block `b` to the free blocks, and coalesces it with free neighbours. Returns the
    /// free block that contains its memory.
    template <class IsComplete>
    [[gnu::noinline]] block* coalesce(block* b, IsComplete is_complete) noexcept {
        return heaps_.of(*b).give(b, is_complete);
    }

    /// Coalesces all cached blocks. Returns true if there were any.
    template <class IsComplete>
    bool flush(IsComplete is_complete) noexcept {
        bool const large = flush_large(is_complete);
        return drain(bins::granule, is_complete) || large;
    }
    /// Coalesces the cached block above `quick_lists::largest`, of which there is at most one.
    /// Returns true if there was one.
    template <class IsComplete>
    bool flush_large(IsComplete is_complete) noexcept {
        block* const b = quick_.take_large();
        if (b != nullptr) { coalesce(b, is_complete); }
        return b != nullptr;
    }
    /// Called if no free block serves a request of `bytes` without a wait: coalesces cached blocks,
    /// so that another search may succeed. Returns true if there were any.
    template <class IsComplete>
    bool flush_for(std::size_t bytes, IsComplete is_complete) noexcept {
        // `few`: first coalesces only the cached blocks of `bulky` bytes or more. If there are
        // none, or if not `few`, coalesces all cached blocks.
        bool const few = !InPlace && bytes <= quick_lists::largest;
        return (few && drain(quick_lists::bulky, is_complete)) || flush(is_complete);
    }

private:
    /// Coalesces the cached blocks of `least` bytes or more. Returns true if there were any.
    template <class IsComplete>
    bool drain(std::size_t least, IsComplete is_complete) noexcept {
        return quick_.drain(least, [&](block* b) { coalesce(b, is_complete); });
    }
    /// Caches the freed large block `b` and coalesces the one cached before. Coalesces `b` instead
    /// if it exceeds `large_limit_`, or if caching it has no benefit.
    template <class IsComplete>
    [[gnu::always_inline]] void cache_large(block* b, live_counts const& counts,
                                            IsComplete is_complete) noexcept {
        // With (almost) no other live block, coalesces `b` and the cached large block, so that a
        // program that repeats its requests gets the same addresses.
        if (counts.live() == 0 || heaps_.of(*b).live_blocks() <= (quick_.has_large() ? 2U : 1U)) {
            flush_large(is_complete);
        } else if (b->bytes <= large_limit_ && !(InPlace && is_before_tail(*b))) {
            b = quick_.put_large(b);
            if (b == nullptr) { return; }
        }
        coalesce(b, is_complete);
    }
    /// Returns true if the block after `b`, which must exist, is the last of its chunk.
    [[nodiscard]] static bool is_before_tail(block const& b) noexcept {
        return b.after->after == nullptr;
    }
    /// Returns the cached large block if it has exactly `bytes` and the alignment, and if the
    /// stream with the index `slot` freed it and may reuse it. Otherwise coalesces it and returns
    /// null.
    template <class IsComplete>
    [[gnu::always_inline]] block* reuse_large(std::size_t slot, std::size_t bytes,
                                              std::size_t alignment,
                                              IsComplete  is_complete) noexcept {
        block* const b = quick_.take_large();
        if (b == nullptr) { return nullptr; }
        if (b->bytes == bytes && quick_lists::usable(*b, slot, alignment)) { return b; }
        coalesce(b, is_complete);
        return nullptr;
    }

    block_heaps<InPlace> heaps_;
    quick_lists          quick_;
    std::size_t          large_limit_; ///< size up to which a large block is cached
};

} // namespace detail
} // namespace vram
