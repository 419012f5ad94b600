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

/// The blocks of a pool. Quick lists keep freed blocks for the next request of their size (cached
/// blocks). `is_complete(use)` returns true if a pending use (a stream that may still access a
/// freed block) is complete.
///
/// Threads   One thread at a time.
template <bool InPlace>
class block_cache {
public:
    /// `apart`: small blocks have separate chunks. `large_limit`: largest size of a freed large
    /// block (above `quick_lists::largest`) that is cached. If it is 0, no large block is cached.
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

    /// Removes and returns a cached block that the stream with the index `slot` has freed. The
    /// block has `bytes` or slightly more. Returns null if no such block is found.
    template <class IsComplete>
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment,
                                                  IsComplete  is_complete) noexcept {
        if (bytes <= quick_lists::largest) [[likely]] {
            return quick_.take(slot, bytes, alignment);
        }
        return reuse_large(slot, bytes, alignment, is_complete);
    }
    /// Caches the freed block `b` for later requests of `bytes` by the stream with the index
    /// `slot`. If `bytes` exceeds `quick_lists::largest`, the block may be coalesced instead, for
    /// example if `counts` has no live bytes.
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
    /// The cache holds at most one block of more than `quick_lists::largest` bytes. Coalesces that
    /// block with its free neighbours. Returns true if there was such a block.
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
        // If chunks cannot grow, a small request needs only the cached blocks of at least `bulky`
        // bytes. If there is none, or for another request, coalesces all cached blocks.
        bool const few = !InPlace && bytes <= quick_lists::largest;
        return (few && drain(quick_lists::bulky, is_complete)) || flush(is_complete);
    }

private:
    /// Coalesces the cached blocks of `least` bytes or more. Returns true if there were any.
    template <class IsComplete>
    bool drain(std::size_t least, IsComplete is_complete) noexcept {
        return quick_.drain(least, [&](block* b) { coalesce(b, is_complete); });
    }
    /// Caches the freed large block `b`, or coalesces `b` with its free neighbours. The cache holds
    /// only one large block: if `b` replaces it, the replaced block is coalesced. A block above
    /// `large_limit_` is never cached.
    template <class IsComplete>
    [[gnu::always_inline]] void cache_large(block* b, live_counts const& counts,
                                            IsComplete is_complete) noexcept {
        // Coalesces `b` and the cached large block if the pool has no live block, or if this heap
        // has no other live or cached block. Repeated requests then get the same addresses.
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
    /// Removes the cached large block from the cache, if there is one. Returns this block if it has
    /// exactly `bytes` and is `usable` for the stream with the index `slot`. Otherwise coalesces
    /// the block and returns null.
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
