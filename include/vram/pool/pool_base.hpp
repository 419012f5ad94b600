// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_base` is the common part of every `pool`: its blocks, and growth by whole chunks.

#include <vram/base/align.hpp>        // saturating_add
#include <vram/concepts/growth.hpp>   // growth
#include <vram/pool/growing_base.hpp> // growing_base
#include <vram/pool/paged_heap.hpp>   // paged_heap
#include <vram/pool/pool_options.hpp> // pool_options
#include <vram/pool/stream_heap.hpp>  // stream_heap
#include <vram/pool/warm_blocks.hpp>  // warm_blocks

#include <concepts>    // assignable_from
#include <cstddef>     // size_t
#include <type_traits> // conditional_t
#include <utility>     // move

namespace vram {

/// A heap of blocks, and the chunks from the upstream of which it consists. Here the size of a
/// chunk never changes. `paged_base` makes chunks grow at their ends and moves the memory of their
/// pages.
///
/// Failure   The functions fail as those of `growing_base`.
/// Threads   Any number of threads may call concurrently.
/// Cost      Growing costs a call of the upstream.
template <synchronous_resource Upstream, growth Growth, bool InPlace = false>
class pool_base : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

    static_assert(!(Growth::asks_device && has_property<Upstream, host_accessible>),
                  "the free memory of the device says nothing about host memory: write "
                  "geometric_growth or fixed_growth in place of device_share_growth");

public:
    using typename base::platform;
    using typename base::stream;

protected:
    using guard   = typename base::guard;
    using request = block_request<stream>;
    using chunk   = block_heap::chunk;

    using heap = std::conditional_t<InPlace, paged_heap<platform>, stream_heap<platform>>;

    pool_base(Upstream upstream, pool_options const& options, Growth growth)
        : base{std::move(upstream), options.max_size},
          options_{options},
          growth_{std::move(growth)},
          heap_{options.events, options.graphs, options.initial_size == 0, large_limit(options)} {}
    pool_base(pool_base&&) = default;
    pool_base& operator=(pool_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        options_ = other.options_;
        growth_  = std::move(other.growth_);
        heap_    = std::move(other.heap_);
        return *this;
    }
    ~pool_base() = default;

    /// Grows an existing chunk and allocates the request there. Chunks of a plain pool cannot grow.
    static void* lengthen(request const&, bool, bool) noexcept { return nullptr; }
    /// Allocates a block that lacks some of its memory. Chunks of a plain pool always have memory
    /// everywhere.
    static void* take_beside(request const&, bool, guard&) noexcept { return nullptr; }
    /// Allocates a small block in a hole between large blocks. Not needed in a plain pool, because
    /// its chunks can be returned.
    static void* take_in_hole(request const&) noexcept { return nullptr; }
    /// Waits until another thread has finished remapping pages. A plain pool has no pages to remap.
    static bool await_pages(guard&) noexcept { return false; }
    /// Returns free memory of chunks that are in use to the upstream. A plain pool returns whole
    /// chunks only.
    static std::size_t give_parts_back(std::size_t, guard&) noexcept { return 0; }

    /// Allocates a chunk of `size` bytes from the upstream, and `out` from it (null: nothing).
    /// Returns null if the limit refuses it. If the upstream refuses it, throws, or returns null if
    /// not `Throwing`.
    template <bool Throwing>
    void* new_chunk(request const& r, std::size_t size, request const* out) {
        struct no_books {
            static void add(void*, std::size_t) noexcept {}
            static void remove(void*) noexcept {}
        } none;
        return take_chunk<Throwing>(r, size, out, none);
    }
    /// As `new_chunk`, and records the chunk in `books` as well.
    template <bool Throwing, class Books>
    void* take_chunk(request const& r, std::size_t size, request const* out, Books& books) {
        std::size_t const   alignment = r.chunk_alignment();
        stream const* const order     = base::order_of(r.on);
        return this->template grow<Throwing>(size, alignment, order, [&](void* at) {
            books.add(at, size);
            try {
                return heap_.add(at, size, alignment, order, out);
            } catch (...) {
                books.remove(at);
                throw;
            }
        });
    }

    /// Allocates a chunk that the upstream has ready, and `r` from it. Returns null if there is
    /// none. The chunk is as large as the growth policy wants, if that needs no query of the
    /// device, or else as large as needed.
    void* chunk_at_once(request const& r)
        requires reusing_resource<Upstream>
    {
        std::size_t size = r.bytes;
        if constexpr (!Growth::asks_device) {
            size = align(wanted(r, {.needed = r.bytes, .held = held_bytes(r)}), bins::granule);
        }
        // Idle chunks are returned as before any growth, so that the upstream may have them ready.
        // Only a few are tried, because this path is meant to be cheap and may fail.
        if (r.bytes > heap_.blocks().small_size) { make_way(size, 4); }
        if (size > r.bytes) {
            if (void* const p = chunk_at_once(r, size)) { return p; }
        }
        return chunk_at_once(r, r.bytes);
    }
    void* chunk_at_once(request const& r, std::size_t size)
        requires reusing_resource<Upstream>
    {
        std::size_t const alignment = r.chunk_alignment();
        return this->grow_at_once(size, alignment, *r.on, [&](void* at) {
            return heap_.add(at, size, alignment, r.on, &r);
        });
    }
    /// Returns idle chunks before the pool reserves more than ever before and more than 9/8 of the
    /// peak of live bytes. Otherwise chunks of sizes that a program needed only once would
    /// accumulate. (Without the eighth, a program that repeats itself would return and allocate the
    /// same chunks each time.) Chunks that a stream still uses are kept, because this function does
    /// not wait.
    // Takes some microseconds if chunks are returned.
    void make_way(std::size_t size, int tries = 64) {
        auto              held   = this->lock_.hold();
        std::size_t const eighth = saturating_add(heap_.most_live(), heap_.most_live() / 8);
        std::size_t const then   = saturating_add(this->budget_.usage.reserved, size);
        if (then <= this->budget_.most_reserved() || then <= eighth) { return; }
        std::size_t back = 0;
        heap_.poll_idle();
        for (; tries != 0 && heap_.has_idle(); --tries) {
            if (!give_chunk_back(heap_.remove_ready(), held, back)) {
                heap_.ask_streams();
                held.unlock(); // lets other threads take the lock
                held.lock();
            } else if (saturating_add(this->budget_.usage.reserved, size) <=
                       this->budget_.most_reserved()) {
                return;
            }
        }
    }
    /// Returns a chunk that was removed from the heap to the upstream, and adds its bytes to
    /// `back`. Returns false if it has no bytes.
    bool give_chunk_back(chunk const& gone, guard& held, std::size_t& back) {
        if (gone.bytes == 0) { return false; }
        back += gone.bytes;
        this->give_back(gone.base, gone.bytes, gone.alignment, held);
        return true;
    }
    /// Returns the bytes of a free block that have physical memory.
    static std::size_t behind(block const& b) noexcept { return b.bytes; }
    /// Returns the bytes that are reserved and not live. The lock must be held.
    [[nodiscard]] std::size_t unused() const noexcept {
        return this->budget_.usage.reserved - heap_.live_bytes();
    }

    /// Returns the size of the next chunk: the size wanted by the growth policy, as far as the
    /// limit has room for whole `unit`s, but at least the needed bytes.
    std::size_t wanted(request const& r, growth_request wish,
                       std::size_t unit = bins::granule) const {
        if constexpr (Growth::asks_device) { wish.device_free = base::device_memory(r.on).free; }
        std::size_t const room = this->room();
        std::size_t const size = growth_(wish);
        std::size_t const most = size <= room ? size : room - room % unit;
        return most > wish.needed && most <= bins::largest ? most : wish.needed;
    }
    [[nodiscard]] std::size_t held_bytes(request const& r) const {
        auto const held = this->lock_.hold();
        return heap_.blocks().of(r.bytes).chunks().reserved();
    }
    /// Calls `attempt` with `size`, half of it, and so on down to `least`, until it succeeds.
    /// Returns its last result.
    template <class Attempt>
    static auto stepping_down(std::size_t size, std::size_t least, Attempt const& attempt) {
        for (;; size = size / 2 > least ? size / 2 : least) {
            auto const got = attempt(size);
            if (got || size <= least) { return got; }
        }
    }

    pool_options                 options_;
    [[no_unique_address]] Growth growth_;
    mutable heap                 heap_; ///< reading the usage coalesces cached blocks

private:
    /// If pages are remapped, large blocks are not cached: a large block at another address than
    /// before costs more than the cache saves.
    [[nodiscard]] static constexpr std::size_t large_limit(pool_options const& o) noexcept {
        return o.remap ? 0 : warm_blocks::large_limit;
    }
};

} // namespace vram
