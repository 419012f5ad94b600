// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_candidates` are the free blocks of a heap from which one request is met.

#include <vram/order/core/availability.hpp>
#include <vram/pool/core/block_cache.hpp>
#include <vram/pool/core/block_request.hpp>
#include <vram/pool/core/live_counts.hpp>
#include <vram/pool/core/stream_arbiter.hpp>

#include <bit> // countr_zero
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The interface through which `stream_arbiter` searches the free blocks of `heap` for the request
/// `r` and takes one. The taken block becomes live and is added to `counts`. If `counts` is null,
/// the block becomes `reserved` instead. `InPlace`: chunks can grow at their ends.
template <class Platform, bool InPlace>
struct block_candidates {
    using arbiter  = stream_arbiter<Platform>;
    using timeline = typename arbiter::timeline;
    using place    = block_heap::fit;
    using request  = block_request<typename arbiter::stream>;

    block_cache<InPlace>& cache;
    arbiter&              streams;
    live_counts*          counts;
    block_heap&           heap;
    request const&        r;
    /// If true, the search has no limit on the number of free blocks that it examines.
    bool every = false;
    /// If true, and if streams may still use a block that fits better, `find` queries once if these
    /// streams have finished.
    bool asks = false;
    /// Value that `block::unbacked` (pages may lack physical memory) had before `reserve` took the
    /// block. `put_back` restores this value.
    bool unbacked = false;

    template <class Price>
    [[nodiscard]] place find(Price const& price) {
        for (;;) {
            heap.reserve(); // in the loop, because `flush_for` may use up the reserved host memory
            place const best = heap.find(r.bytes, r.alignment, price, every);
            if (best.tighter != nullptr && std::exchange(asks, false) &&
                !arbiter::is_captured(r.on)) {
                // The block `best.tighter` is preferred to `best.where`, but streams may still use
                // it. Queries if these streams have finished, then searches again.
                streams.timelines().ask(best.tighter->waits_for());
                continue;
            }
            if (best.cost == availability::ready) { return best; }
            // No place is usable without a wait. If there are cached blocks, coalesces them and
            // searches again.
            if (!cache.flush_for(r.bytes, streams.is_complete())) { return best; }
        }
    }
    /// `stream_arbiter` calls this function before a wait, and searches again if the result is
    /// true. This version does nothing and returns false.
    [[nodiscard]] static bool query() noexcept { return false; }
    [[nodiscard]] tags        uses(place const& p) const noexcept {
        return p.where->waits_for().within(p.start, p.start + r.bytes);
    }
    block* take(place const& p, bool captured) noexcept {
        if (captured) { return take_retained(p); }
        block* const b = requested(r.asked, r.alignment, heap.take(p, r.bytes));
        counts != nullptr ? counts->add(b->bytes) : void(b->now = block::state::reserved);
        return b;
    }
    block* reserve(place const& p) noexcept {
        tags const before = uses(p);
        unbacked          = p.where->unbacked;
        block* const b    = requested(r.asked, r.alignment, heap.take(p, r.bytes));
        b->now            = block::state::reserved; // until it is live, a free of it is rejected
        // Stores the pending uses of `b` again, because `heap.take` has cleared them. The necessary
        // host memory comes from `heap.reserve`. During a wait, other threads could use it up.
        heap.hold(b, before);
        return b;
    }
    [[nodiscard]] static tags uses_of(block const* b) noexcept { return b->waits_for(); }
    block*                    accept(block* b) noexcept {
        heap.hold(b, tags{});
        return counts != nullptr ? made_live(b, *counts) : b;
    }
    block* put_back(block* b) noexcept {
        b->unbacked = unbacked;
        return cache.coalesce(b, streams.is_complete());
    }
    static void retain(block* b, timeline const& captured) noexcept {
        block_tags::keep_for_capture(b, captured.slot(), captured.covered() + 1);
    }

    /// Stores the requested size and alignment in the descriptor `b`, to check the free of the
    /// block. Returns `b`.
    static block* requested(std::size_t asked, std::size_t alignment, block* b) noexcept {
        b->slack     = static_cast<std::uint16_t>(b->bytes - asked);
        b->alignment = std::countr_zero(alignment) & 63;
        return b;
    }
    /// Changes the state of a reserved block to live, and adds the block to `counts`.
    static block* made_live(block* b, live_counts& counts) noexcept {
        b->now = block::state::live;
        counts.add(b->bytes);
        return b;
    }

private:
    /// Allocates the place `p` for a stream that is being captured. Captured graphs may still use
    /// parts of this memory. Records these parts, so that a free of the block keeps them for the
    /// graphs.
    block* take_retained(place const& p) noexcept {
        tags const   before = uses(p);
        block* const b      = take(p, false);
        heap.keep(b, before.kept());
        return b;
    }
};

} // namespace detail
} // namespace vram
