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

/// The free and live blocks (heaps) of a pool, and its quick lists of cached blocks. This class
/// decides which freed blocks are cached, and which cached blocks are coalesced. `is_complete(use)`
/// returns true if a pending use by a stream is complete.
///
/// Failure   No function fails.
/// Threads   One thread at a time.
/// Cost      The cost is that of `quick_lists` and `block_heap`.
template <bool InPlace>
class block_cache {
public:
    /// `apart`: small blocks lie in separate chunks. `large_limit`: size up to which a freed large
    /// block is cached, at most one at a time. If `large_limit` is 0, no large block is cached.
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

    /// Removes and returns a cached block of this size or a little more, which the stream with the
    /// index `slot` has freed. Returns null if there is no such block. If a large request finds
    /// none, the cached large block is coalesced, if there is one.
    template <class IsComplete>
    [[nodiscard, gnu::always_inline]] block* take(std::size_t slot, std::size_t bytes,
                                                  std::size_t alignment,
                                                  IsComplete  is_complete) noexcept {
        if (bytes <= quick_lists::largest) [[likely]] {
            return quick_.take(slot, bytes, alignment);
        }
        return reuse_large(slot, bytes, alignment, is_complete);
    }
    /// Caches a block that the stream with the index `slot` has freed, in the quick list for
    /// `bytes`, the rounded size of the request. A large block is coalesced instead if it should
    /// not be cached (`cache_large`), among other cases if no block of the pool is live, as
    /// `counts` tells.
    template <class IsComplete>
    [[gnu::always_inline]] void put(block* b, std::size_t bytes, std::size_t slot,
                                    live_counts const& counts, IsComplete is_complete) noexcept {
        if (bytes > quick_lists::largest) [[unlikely]] {
            cache_large(b, counts, is_complete);
        } else {
            quick_.put(b, bytes, slot);
        }
    }
    /// Moves the block `b`, just freed or cached before, to the free blocks of its heap, and
    /// coalesces it with free neighbours. Returns the free block that then contains its memory.
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
    /// Coalesces the cached large block. Returns true if there was one.
    template <class IsComplete>
    bool flush_large(IsComplete is_complete) noexcept {
        block* const b = quick_.take_large();
        if (b != nullptr) { coalesce(b, is_complete); }
        return b != nullptr;
    }
    /// Coalesces cached blocks for a request of `bytes` that found no block. Returns true if there
    /// were any. For a small request, small cached blocks stay cached if larger ones exist: the
    /// small ones are many, contain few bytes, and would only be divided again. If chunks can grow,
    /// all are coalesced, because the used part of a chunk should end as low as possible.
    template <class IsComplete>
    bool flush_for(std::size_t bytes, IsComplete is_complete) noexcept {
        bool const few = !InPlace && bytes <= quick_lists::largest;
        return (few && drain(quick_lists::bulky, is_complete)) || flush(is_complete);
    }

private:
    /// Coalesces the cached blocks of lists for `least` bytes or more. Returns true if there were
    /// any.
    template <class IsComplete>
    bool drain(std::size_t least, IsComplete is_complete) noexcept {
        return quick_.drain(least, [&](block* b) { coalesce(b, is_complete); });
    }
    /// Caches or coalesces a freed large block. The block is not cached if it lies directly before
    /// the free end of a chunk that can grow, because the used part of a chunk should end as low as
    /// possible. The block is also not cached if no other block of the pool is live, or if no other
    /// block of its heap is live or in a quick list, so that a program that repeats itself finds
    /// the same addresses again. A block larger than `large_limit_` is never cached.
    template <class IsComplete>
    [[gnu::always_inline]] void cache_large(block* b, live_counts const& counts,
                                            IsComplete is_complete) noexcept {
        if (counts.live() == 0 || heaps_.of(*b).live_blocks() <= (quick_.has_large() ? 2U : 1U)) {
            flush_large(is_complete);
        } else if (b->bytes <= large_limit_ && !(InPlace && is_before_tail(*b))) {
            b = quick_.put_large(b);
            if (b == nullptr) { return; }
        }
        coalesce(b, is_complete);
    }
    /// Returns true if the next block is the last of its chunk. Called only if chunks can grow:
    /// each chunk then ends with a free block.
    [[nodiscard]] static bool is_before_tail(block const& b) noexcept {
        return b.after->after == nullptr;
    }
    /// Returns the cached large block if it has exactly the requested size, a suitable address, and
    /// was freed by the stream with the index `slot`. Otherwise coalesces the cached block, if
    /// there is one, and returns null: the request may fit into the coalesced block.
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
