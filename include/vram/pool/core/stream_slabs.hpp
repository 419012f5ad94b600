// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_slabs` selects blocks of `slab_heap`s that a stream may use, and orders streams if
/// needed.

#include <vram/order/core/availability.hpp>
#include <vram/pool/core/slab_heap.hpp>
#include <vram/pool/core/stream_arbiter.hpp>
#include <vram/pool/event_policy.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// Selects free blocks of a `slab_heap` (an argument of each function) for a stream, and makes
/// streams or the host wait if needed. Owns the timelines (records of the progress) of the streams.
/// Functions that take a lock guard are called with the lock held. Those that wait on the host
/// unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the resource's lock.
/// Cost      Allocating a stream's own block or a clean one (used by no stream) takes constant
///           time, and no call of the platform except for the stream's id or capture status. Other
///           blocks cost a look at every stream that was met, and queries of the platform.
template <class Platform>
class stream_slabs {
public:
    using arbiter = stream_arbiter<Platform>;
    using stream  = typename arbiter::stream;
    using guard   = typename arbiter::guard;
    using entry   = slab_heap::entry;
    using chunk   = slab_heap::chunk;

    stream_slabs(event_policy events, bool graphs) noexcept : arbiter_{events, graphs} {}

    /// Allocates a block from the reserved memory of `heap` for the stream `on` (null: for any
    /// stream). If every block needs a wait, the stream waits; if `on` is null, the host waits
    /// instead, so that any stream may use the block at once. If `must_wait` is not null, nothing
    /// waits: `*must_wait` is set to true and null is returned. Also returns null if no block is
    /// available.
    [[nodiscard]] entry* take(slab_heap& heap, stream const* on, guard& held,
                              bool* must_wait = nullptr) {
        auto const who = arbiter_.asker_for(on);
        if (who.mine != nullptr) {
            std::size_t const slot = who.mine->slot();
            // Reserves host memory now, so that a free of the block on this stream cannot fail.
            heap.reserve_slot(slot);
            entry* const n = who.captured ? heap.take_retained(slot) : heap.take_own(slot);
            if (n != nullptr) { return n; }
        }
        if (entry* const n = heap.take_clean()) { return n; }
        if (heap.blocks_free() == 0) { return nullptr; }
        candidates all{*this, heap};
        return arbiter_.acquire(all, who, held, must_wait);
    }

    /// Frees a block that the stream `on` may still use (null: no stream). Returns false if the use
    /// could be neither recorded nor waited for; the block then stays live.
    bool give(slab_heap& heap, entry* n, stream const* on) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) {
            heap.reserve_slot(slot);
            if (epoch != tag::captured) {
                n->in_graph ? heap.quarantine(n, slot, epoch) : heap.give(n, slot, epoch);
            } else if (n->in_graph && n->slot != slot) {
                // Graphs of two streams may use the block: no stream can allocate it until
                // `forget_captures`.
                give_unused(heap, n);
            } else {
                heap.retain(n, slot);
            }
        };
        using freed     = typename arbiter::freed;
        freed const how = on == nullptr
                              ? freed::idle
                              : arbiter_.record_free(*on, n->address, heap.stride(), record);
        if (how == freed::idle) { give_unused(heap, n); }
        return how != freed::lost;
    }

    /// Adds a chunk that only the stream `order` (null: any stream) may use without a wait.
    /// Allocates a block from it for the stream `on` (null: for use on any stream), and returns the
    /// block. If `order` is not null, `on` is that stream.
    entry* add(slab_heap& heap, void* base, std::size_t bytes, stream const* order,
               stream const* on) {
        timeline* const mine = on != nullptr ? &timelines().of(*on) : nullptr;
        if (order == nullptr) {
            heap.add(base, bytes, nullptr);
            return heap.take_clean();
        }
        slab_heap::holder const first{mine->slot(), mine->epoch_of_free()};
        heap.add(base, bytes, &first);
        // With `event_policy::eager`, an event is recorded for the other streams that may use the
        // rest of the chunk.
        arbiter_.record_if_eager(*mine);
        return heap.take_own(mine->slot());
    }
    /// Returns a chunk without live blocks that no stream uses any more, or null. Makes the host
    /// wait for streams if needed.
    [[nodiscard]] chunk* idle(slab_heap& heap, guard& held) {
        timelines().readmit();
        for (;;) {
            collect_complete(heap);
            // If every chunk without live blocks is still used by a stream: a free block of such a
            // chunk. The host can wait for the last use of the block.
            entry* almost = nullptr;
            for (chunk* c : heap.chunks()) {
                if (c->live != 0) { continue; }
                if (c->pending() == 0) { return c; }
                if (almost != nullptr) { continue; }
                entry* const n = pending_block(*c);
                if (n != nullptr && !held_up(*n)) { almost = n; }
            }
            if (almost == nullptr) { return nullptr; }
            arbiter_.wait_on_host(tag_of(*almost), held,
                                  [&](timeline const& c) { retain_all(heap, c.slot()); });
        } // other threads may have allocated during the wait, so search again
    }

    /// Records the device of a stream that uses memory of the upstream directly, so that the device
    /// is waited for at the end. Does nothing if the stream cannot be queried now.
    void register_stream(stream s) noexcept {
        try {
            (void)timelines().of(s);
        } catch (...) {} // no block has been handed out yet, so there may be nothing to wait for
    }
    void poll() { timelines().poll(); }
    /// Makes freed blocks available to every stream if the streams that used them are done.
    void collect_complete(slab_heap& heap) noexcept {
        heap.collect_complete([&](std::size_t slot, std::uint64_t epoch) {
            return timelines().is_complete(tag{0, 0, epoch, slot});
        });
    }
    /// Called at the end of the resource: makes the host wait for all streams. If a block is still
    /// live (`something_out`), the streams that use it are unknown, so the host also waits for the
    /// devices of all streams that were met, and for the current device.
    void wait_for_all(bool something_out, guard& held) noexcept {
        if (something_out) { timelines().wait_for_all_devices(); }
        timelines().wait_for_all(held);
    }
    void retire(stream s) { timelines().retire(s); }
    /// Called when no captured graph will be launched again. If memory is kept for graphs, makes
    /// the host wait for the devices of all streams. Returns true if the caller must then call
    /// `end_captures` of each heap.
    [[nodiscard]] bool finish_graphs(guard& held) { return timelines().finish_graphs(held) != 0; }

    /// Returns the number of free blocks of `heap` that some stream or captured graph may still
    /// use.
    [[nodiscard]] std::size_t pending(slab_heap const& heap) const noexcept {
        std::size_t count = 0;
        for (chunk const* c : heap.chunks()) {
            if (c->pending() == 0) { continue; }
            for (entry const& n : c->entries) {
                count += n.at == place::retained ||
                         (n.at == place::pending && !timelines().is_complete(*tag_of(n).begin()));
            }
        }
        return count;
    }
    [[nodiscard]] std::uint64_t events() const noexcept { return timelines().events(); }
    [[nodiscard]] std::uint64_t waits() const noexcept { return timelines().waits(); }

private:
    using timeline = typename arbiter::timeline;
    using place    = slab_heap::place;

    [[nodiscard]] static tags tag_of(entry const& n) noexcept {
        return tags{{0, 0, n.epoch, n.slot}};
    }

    /// Returns true if no wait makes the free block available: its stream is being captured, or a
    /// graph may use it.
    [[nodiscard]] bool held_up(entry const& n) const noexcept {
        return timelines().of(tag_of(n), nullptr, false) == availability::unavailable;
    }

    /// Frees a block that no stream uses. If a graph may use the block, the block is kept for the
    /// graph.
    static void give_unused(slab_heap& heap, entry* n) noexcept {
        n->in_graph ? heap.quarantine(n, n->slot, 0) : heap.give_clean(n);
    }
    /// Called if the stream with the index `slot` is being captured. The blocks that it has freed
    /// since its last recorded event may belong to the graph, so these blocks are kept until
    /// `end_captures`.
    void retain_all(slab_heap& heap, std::size_t slot) noexcept {
        entry* n = heap.newest(slot);
        for (; n != nullptr && !timelines().has_event(slot, n->epoch); n = heap.newest(slot)) {
            heap.retain(heap.take(n), slot);
        }
    }

    /// The free blocks of a heap from which `stream_arbiter` chooses if the stream has freed none
    /// of them itself and none is clean: of each stream the block that it freed first.
    struct candidates {
        struct place {
            /// The selected block. Null with a `cost` of `ready` selects the lowest block that no
            /// stream uses. Null with a `cost` of `unavailable` means that no block was found.
            entry*       where = nullptr;
            availability cost  = availability::unavailable;
        };
        stream_slabs& all;
        slab_heap&    heap;
        /// The pending use of the block that `reserve` has allocated in advance: the stream that
        /// may still access the block. The host waits for that stream, with the lock released.
        tags reserved_use{};

        template <class Price>
        [[nodiscard]] place find(Price const& price) const noexcept {
            if (heap.has_clean()) { return {nullptr, availability::ready}; }
            place best;
            for (std::size_t slot = 0; slot < heap.slots(); ++slot) {
                entry* const n = heap.oldest(slot);
                if (n == nullptr) { continue; }
                availability const cost = price(slot, n->epoch);
                if (cost < best.cost) { best = {n, cost}; }
                if (cost == availability::ready) { break; }
            }
            return best;
        }
        [[nodiscard]] bool query() {
            all.poll();
            all.collect_complete(heap);
            return true;
        }
        [[nodiscard]] static tags uses(place const& p) noexcept { return tag_of(*p.where); }
        entry*                    take(place const& p, bool /* captured */) noexcept {
            return p.where != nullptr ? heap.take(p.where) : heap.take_clean();
        }
        entry* reserve(place const& p) noexcept {
            reserved_use   = tag_of(*p.where);
            entry* const n = heap.take(p.where);
            // No request has this size, so every free of the block is rejected.
            n->asked = unsatisfiable;
            return n;
        }
        [[nodiscard]] tags uses_of(entry const*) const noexcept { return reserved_use; }
        static entry*      accept(entry* n) noexcept { return n; }
        entry*             put_back(entry* n) noexcept {
            tag const was = *reserved_use.begin();
            heap.give_oldest(n, was.slot, was.epoch);
            return n;
        }
        void retain(entry const*, timeline const& captured) noexcept {
            all.retain_all(heap, captured.slot());
        }
    };

    [[nodiscard]] static entry* pending_block(chunk& c) noexcept {
        entry* found = nullptr;
        for (entry& n : c.entries) {
            if (n.at == place::retained) { return nullptr; }
            if (n.at == place::pending) { found = &n; }
        }
        return found;
    }

    [[nodiscard]] auto&       timelines() noexcept { return arbiter_.timelines(); }
    [[nodiscard]] auto const& timelines() const noexcept { return arbiter_.timelines(); }

    arbiter arbiter_;
};

} // namespace detail
} // namespace vram
