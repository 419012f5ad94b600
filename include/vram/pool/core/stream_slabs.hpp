// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_slabs` selects blocks of `slab_heap`s that a stream may use, and orders streams if
/// needed.

#include <vram/base/core/report_caught.hpp>      // report_caught
#include <vram/base/error.hpp>                   // report_error
#include <vram/concepts/core/name_of_stream.hpp> // name_of_stream
#include <vram/order/core/availability.hpp>      // availability
#include <vram/order/core/stream_timelines.hpp>  // stream_timelines
#include <vram/pool/core/platform_lock.hpp>      // platform_lock
#include <vram/pool/core/slab_heap.hpp>          // slab_heap
#include <vram/pool/event_policy.hpp>            // event_policy

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange, move

namespace vram {
namespace detail {

/// The stream timelines for any number of `slab_heap`s. Functions that take a lock guard are called
/// with the lock held. Those that wait on the host unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the lock.
/// Cost      A stream's own blocks and clean blocks (free, used by no stream) take constant time
///           without a call of the platform (with `event_policy::eager`, except for the stream's
///           id). Other blocks cost a look at every stream that was met, and queries of the
///           platform.
template <class Platform>
class stream_slabs {
public:
    using stream = typename Platform::stream;
    using guard  = typename platform_lock<Platform>::guard;
    using entry  = slab_heap::entry;
    using chunk  = slab_heap::chunk;

    stream_slabs(event_policy events, bool graphs) noexcept
        : timelines_{events == event_policy::lazy}, events_{events}, graphs_{graphs} {}
    stream_slabs(stream_slabs&&) = default;
    stream_slabs& operator=(stream_slabs&& other) noexcept {
        timelines_ = std::move(other.timelines_);
        events_    = other.events_;
        graphs_    = other.graphs_;
        return *this;
    }

    /// Allocates a block from the reserved memory of `heap`, for the stream `on` (null: for any
    /// stream, without a wait). Returns null if there is none. If `must_wait` is not null and every
    /// block needs a wait, sets it to true and returns null instead of waiting.
    [[nodiscard]] entry* take(slab_heap& heap, stream const* on, guard& held,
                              bool* must_wait = nullptr) {
        timeline* const mine     = on != nullptr ? &timelines_.of(*on) : nullptr;
        bool const      captured = mine != nullptr && graphs_ && Platform::capturing(*on);
        if (mine != nullptr) {
            // Makes room, so that the free of the block cannot fail.
            heap.reserve_slot(mine->slot());
            entry* const n =
                captured ? heap.take_retained(mine->slot()) : heap.take_own(mine->slot());
            if (n != nullptr) { return n; }
        }
        if (entry* const n = heap.take_clean()) { return n; }
        if (heap.blocks_free() == 0) { return nullptr; }
        return take_anothers(heap, on, mine, captured, held, must_wait);
    }

    /// Frees a block that the stream `on` may still use (null: no stream). Returns false if the use
    /// could be neither recorded nor waited for; the block then stays live.
    bool give(slab_heap& heap, entry* n, stream const* on) noexcept {
        if (on == nullptr) { return give_unused(heap, n); }
        try {
            timeline& c = timelines_.of(*on);
            heap.reserve_slot(c.slot());
            bool const eager = events_ == event_policy::eager;
            bool const looks = eager || graphs_;
            if (looks && Platform::capturing(*on)) {
                (void)c.epoch_of_captured_free();
                // Two graphs, captured on two streams, use the block, so no stream can reuse it.
                bool const others = n->in_graph && n->slot != c.slot();
                if (others) { return give_unused(heap, n); }
                heap.retain(n, c.slot());
                return true;
            }
            if (looks && n->in_graph) {
                heap.quarantine(n, c.slot(), c.epoch_of_free());
            } else {
                heap.give(n, c.slot(), c.epoch_of_free());
            }
            if (eager) { c.try_record(); }
            return true;
        } catch (...) {
            report_caught({.kind    = error_kind::platform_error,
                           .pointer = n->address,
                           .stream  = name_of_stream<Platform>(*on),
                           .call    = "recording the stream of a free"});
        }
        if (timelines_.wait_for_user(*on)) { return give_unused(heap, n); }
        report_error({.kind    = error_kind::leak,
                      .pointer = n->address,
                      .bytes   = heap.stride(),
                      .stream  = name_of_stream<Platform>(*on),
                      .cause   = "its stream could be neither recorded nor waited for"});
        return false;
    }

    /// Adds a chunk that only the stream `order` (null: any stream) may use without a wait, and
    /// allocates a block from it for `on`. If `order` is not null, `on` is the same stream.
    entry* add(slab_heap& heap, void* base, std::size_t bytes, stream const* order,
               stream const* on) {
        timeline* const mine = on != nullptr ? &timelines_.of(*on) : nullptr;
        if (order == nullptr) {
            heap.add(base, bytes, nullptr);
            return heap.take_clean();
        }
        slab_heap::holder const first{mine->slot(), mine->epoch_of_free()};
        heap.add(base, bytes, &first);
        // Records an event for other streams that will use the rest of the chunk.
        if (events_ == event_policy::eager) { mine->try_record(); }
        return heap.take_own(mine->slot());
    }
    /// Returns a chunk without live blocks that no stream uses any more, or null. Makes the host
    /// wait for streams if needed.
    [[nodiscard]] chunk* idle(slab_heap& heap, guard& held) {
        timelines_.readmit();
        for (;;) {
            collect_complete(heap);
            // A pending block of a chunk without live blocks, for which the host can wait.
            entry* almost = nullptr;
            for (chunk* c : heap.chunks()) {
                if (c->live != 0) { continue; }
                if (c->pending() == 0) { return c; }
                if (almost != nullptr) { continue; }
                entry* const n = pending_block(*c);
                if (n != nullptr && !held_up(*n)) { almost = n; }
            }
            if (almost == nullptr) { return nullptr; }
            std::size_t const slot = almost->slot;
            if (timelines_.finish(tag_of(*almost), held) != nullptr && !retain_all(heap, slot)) {
                timelines_.exclude(slot);
            }
        } // other threads may have allocated during the wait, so search again
    }

    /// Records the device of a stream that uses memory of the upstream directly, so that the device
    /// is waited for at the end. Does nothing if the stream cannot be queried now.
    void meet(stream s) noexcept {
        try {
            (void)timelines_.of(s);
        } catch (...) {} // no block has been handed out yet, so there may be nothing to wait for
    }
    void poll() { timelines_.poll(); }
    /// Makes pending blocks clean (free for any stream) if the streams that used them are done.
    void collect_complete(slab_heap& heap) noexcept {
        heap.collect_complete([&](std::size_t slot, std::uint64_t epoch) {
            return timelines_.is_complete(tag{0, 0, epoch, slot});
        });
    }
    /// Called at the end: waits for all streams, and for whole devices if a block is still live
    /// (`something_out`).
    void wait_for_all(bool something_out, guard& held) noexcept {
        if (something_out) { timelines_.wait_for_all_devices(); }
        timelines_.wait_for_all(held);
    }
    void retire(stream s) { timelines_.retire(s); }
    void forget_captures() noexcept { timelines_.forget_captures(); }
    void end_captures(slab_heap& heap) noexcept {
        heap.end_captures([this](std::size_t slot) { return timelines_.after_captures(slot); });
    }

    /// Returns the number of free blocks of `heap` that some stream may still use.
    [[nodiscard]] std::size_t pending(slab_heap const& heap) const noexcept {
        std::size_t count = 0;
        for (chunk const* c : heap.chunks()) {
            if (c->pending() == 0) { continue; }
            for (entry const& n : c->entries) {
                count += n.at == place::retained ||
                         (n.at == place::pending && !timelines_.is_complete(*tag_of(n).begin()));
            }
        }
        return count;
    }
    [[nodiscard]] std::uint64_t events() const noexcept { return timelines_.events(); }
    [[nodiscard]] std::uint64_t waits() const noexcept { return timelines_.waits(); }

private:
    using timeline = typename stream_timelines<Platform>::timeline;
    using place    = slab_heap::place;

    [[nodiscard]] static tags tag_of(entry const& n) noexcept {
        return tags{{0, 0, n.epoch, n.slot}};
    }

    /// Returns true if the block's stream is being captured, or if a graph may use the block.
    [[nodiscard]] bool held_up(entry const& n) const noexcept {
        return timelines_.of(tag_of(n), nullptr, false) == availability::unavailable;
    }

    /// Frees a block that no stream uses. A graph may still retain it.
    static bool give_unused(slab_heap& heap, entry* n) noexcept {
        n->in_graph ? heap.quarantine(n, n->slot, 0) : heap.give_clean(n);
        return true;
    }

    /// Allocates a block that another stream freed: one that is ready, else one that needs a wait.
    entry* take_anothers(slab_heap& heap, stream const* on, timeline* mine, bool captured,
                         guard& held, bool* must_wait) {
        timelines_.readmit();
        std::size_t held_up = 0; // streams with a smaller slot cannot be waited for
        for (bool asked = false;;) {
            entry* dear = nullptr;
            for (std::size_t slot = 0; slot < heap.slots(); ++slot) {
                entry* const n = heap.oldest(slot);
                if (n == nullptr) { continue; }
                auto const price = timelines_.of(tag_of(*n), mine, captured);
                if (price == availability::ready) { return heap.take(n); }
                if (price == availability::needs_wait && dear == nullptr && slot >= held_up) {
                    dear = n;
                }
            }
            if (dear == nullptr) { return nullptr; }
            if (mine != nullptr && !captured && Platform::capturing(*on)) {
                captured = true; // a stream that is being captured must neither wait nor query
                continue;
            }
            if (!std::exchange(asked, true)) {
                timelines_.poll();
                collect_complete(heap);
                if (entry* const n = heap.take_clean()) { return n; }
                continue;
            }
            std::size_t const slot = dear->slot;
            if (must_wait != nullptr) {
                // Its use may be complete although no event was recorded.
                if (!std::exchange(*must_wait, true)) {
                    timelines_.ask(tag_of(*dear));
                    continue;
                }
                if (timelines_.in_capture(tag_of(*dear)) == nullptr) { return nullptr; }
                *must_wait = false; // a captured stream cannot be waited for; try the next one
            } else if (entry* const n = ordered(heap, dear, mine, held)) {
                return n;
            }
            if (!retain_all(heap, slot)) { held_up = slot + 1; }
            // Freed by another thread during the wait.
            if (entry* const n = heap.take_clean()) { return n; }
        }
    }
    /// Allocates the block `n` after a wait for its stream, or returns null if that is captured.
    entry* ordered(slab_heap& heap, entry* n, timeline* mine, guard& held) {
        tags const        waits_for = tag_of(*n);
        std::size_t const slot      = n->slot;
        if (mine != nullptr) {
            if (timelines_.order(*mine, waits_for) == nullptr) { return heap.take(n); }
        } else {
            heap.take(n); // taken out during the wait; no thread may free it
            n->asked     = unsatisfiable;
            bool held_up = false;
            try {
                held_up = timelines_.finish(waits_for, held) != nullptr;
            } catch (...) {
                heap.give_oldest(n, slot, waits_for.begin()->epoch);
                throw;
            }
            if (!held_up) { return n; }
            heap.give_oldest(n, slot, waits_for.begin()->epoch);
        }
        return nullptr;
    }
    /// Called if the stream in `slot` is being captured and some of its frees have no event yet. If
    /// captures are tracked, these frees came before the capture, and the blocks are excluded until
    /// it ends (returns false). Otherwise they may belong to the graph and are retained (returns
    /// true).
    bool retain_all(slab_heap& heap, std::size_t slot) noexcept {
        if (graphs_ || events_ == event_policy::eager) { return false; }
        entry* n = heap.newest(slot);
        for (; n != nullptr && !timelines_.has_event(slot, n->epoch); n = heap.newest(slot)) {
            heap.retain(heap.take(n), slot);
        }
        return true;
    }
    [[nodiscard]] static entry* pending_block(chunk& c) noexcept {
        entry* found = nullptr;
        for (entry& n : c.entries) {
            if (n.at == place::retained) { return nullptr; }
            if (n.at == place::pending) { found = &n; }
        }
        return found;
    }

    stream_timelines<Platform> timelines_;
    event_policy               events_;
    bool                       graphs_;
};

} // namespace detail
} // namespace vram
