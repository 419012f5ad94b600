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

/// Selects free blocks of a `slab_heap` for a stream. Makes this stream, or the host, wait if
/// necessary. Owns the timelines (records of progress) of the streams. Functions with a `guard`
/// parameter release the lock while the host waits.
///
/// Failure   Errors of the platform and `std::bad_alloc` are rethrown; nothing has changed then.
/// Threads   One thread at a time, which holds the resource's lock.
template <class Platform>
class stream_slabs {
public:
    using arbiter = stream_arbiter<Platform>;
    using stream  = typename arbiter::stream;
    using guard   = typename arbiter::guard;
    using entry   = slab_heap::entry;
    using chunk   = slab_heap::chunk;

    stream_slabs(event_policy events, bool graphs) noexcept : arbiter_{events, graphs} {}

    /// Allocates a block for the stream `on` (null: for the host). If `must_wait` is null, this
    /// stream or the host waits if needed. Otherwise nothing waits, and `*must_wait` becomes true
    /// if a wait would help. Returns null if no block was allocated.
    [[nodiscard]] entry* take(slab_heap& heap, stream const* on, guard& held,
                              bool* must_wait = nullptr) {
        auto const who = arbiter_.asker_for(on);
        if (who.mine != nullptr) {
            std::size_t const slot = who.mine->slot();
            // Reserves now the host memory that a free of the block on this stream needs, so that
            // such a free cannot fail.
            heap.reserve_slot(slot);
            entry* const n = who.captured ? heap.take_retained(slot) : heap.take_own(slot);
            if (n != nullptr) { return n; }
        }
        if (entry* const n = heap.take_clean()) { return n; }
        if (heap.blocks_free() == 0) { return nullptr; }
        candidates all{*this, heap};
        return arbiter_.acquire(all, who, held, must_wait);
    }

    /// Frees the block `n`, which the stream `on` (null: none) may still use. Returns false if `on`
    /// can neither be recorded as a user of the block nor waited for; the block then stays live.
    bool give(slab_heap& heap, entry* n, stream const* on) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) {
            heap.reserve_slot(slot);
            if (epoch != tag::captured) {
                n->in_graph ? heap.quarantine(n, slot, epoch) : heap.give(n, slot, epoch);
            } else if (n->in_graph && n->slot != slot) {
                // Graphs that were captured on two streams may use the block. It is therefore
                // withheld from all streams until `forget_captures`.
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

    /// Adds a chunk to `heap`, and allocates one of its blocks for the stream `on`, or for the host
    /// if `on` is null. If `order` is null, every stream may use the chunk at once. Otherwise
    /// `order` is equal to `on`, and other streams must wait for this stream before they use the
    /// chunk.
    entry* add(slab_heap& heap, void* base, std::size_t bytes, stream const* order,
               stream const* on) {
        timeline* const mine = on != nullptr ? &timelines().of(*on) : nullptr;
        if (order == nullptr) {
            heap.add(base, bytes, nullptr);
            return heap.take_clean();
        }
        slab_heap::holder const first{mine->slot(), mine->epoch_of_free()};
        heap.add(base, bytes, &first);
        // With `event_policy::eager`, an event is recorded now. Other streams can wait for this
        // event before they use the other blocks of the chunk.
        arbiter_.record_if_eager(*mine);
        return heap.take_own(mine->slot());
    }
    /// Returns a chunk that has no live block and that no stream uses. If there is none, the host
    /// waits for streams. Returns null if no wait helps.
    [[nodiscard]] chunk* idle(slab_heap& heap, guard& held) {
        timelines().readmit();
        for (;;) {
            collect_complete(heap);
            // A free block of a chunk without a live block. If each such chunk has a block that a
            // stream may still use, the host waits for the stream that freed `awaited`. Null if no
            // wait helps.
            entry* awaited = nullptr;
            for (chunk* c : heap.chunks()) {
                if (c->live != 0) { continue; }
                if (c->pending() == 0) { return c; }
                if (awaited != nullptr) { continue; }
                entry* const n = pending_block(*c);
                if (n != nullptr && !held_up(*n)) { awaited = n; }
            }
            if (awaited == nullptr) { return nullptr; }
            arbiter_.wait_on_host(tag_of(*awaited), held,
                                  [&](timeline const& c) { retain_all(heap, c.slot()); });
        } // other threads may have allocated during the wait, so search again
    }

    /// Records the device of a stream, so that the destructor can wait for that device. Does
    /// nothing if a query of the stream fails.
    void register_stream(stream s) noexcept {
        try {
            (void)timelines().of(s);
        } catch (...) {} // no block has been handed out yet, so there may be nothing to wait for
    }
    void poll() { timelines().poll(); }
    /// Makes freed blocks of `heap` available to every stream if earlier queries of events showed
    /// that the streams that used them are done.
    void collect_complete(slab_heap& heap) noexcept {
        heap.collect_complete([&](std::size_t slot, std::uint64_t epoch) {
            return timelines().is_complete(tag{0, 0, epoch, slot});
        });
    }
    /// Makes the host wait until no stream uses freed memory. `something_out`: true if a block is
    /// still live. Its users are unknown, so the host then first waits for whole devices.
    void wait_for_all(bool something_out, guard& held) noexcept {
        if (something_out) { timelines().wait_for_all_devices(); }
        timelines().wait_for_all(held);
    }
    void retire(stream s) { timelines().retire(s); }
    /// If memory may be kept for captured graphs, makes the host wait for the devices of all
    /// streams. Returns true if the host waited: the caller must then call `end_captures` of each
    /// heap.
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

    /// Returns true if no wait makes the free block available now. Either it is kept for a captured
    /// graph, or its stream is being captured, so that no event can be recorded behind the free.
    [[nodiscard]] bool held_up(entry const& n) const noexcept {
        return timelines().of(tag_of(n), nullptr, false) == availability::unavailable;
    }

    /// Frees a block that no stream uses. If a captured graph may use it, no stream can allocate
    /// the block until `forget_captures`; otherwise every stream can at once.
    static void give_unused(slab_heap& heap, entry* n) noexcept {
        n->in_graph ? heap.quarantine(n, n->slot, 0) : heap.give_clean(n);
    }
    /// Keeps the blocks that the stream with the index `slot` has freed since its last event. Until
    /// `end_captures`, only captures of this stream can allocate these blocks.
    void retain_all(slab_heap& heap, std::size_t slot) noexcept {
        entry* n = heap.newest(slot);
        for (; n != nullptr && !timelines().has_event(slot, n->epoch); n = heap.newest(slot)) {
            heap.retain(heap.take(n), slot);
        }
    }

    /// The free blocks among which a `stream_arbiter` selects: a clean block (used by no stream) if
    /// there is one, otherwise the oldest block in the list of each stream.
    struct candidates {
        struct place {
            /// The selected block. If null and `cost` is `ready`, any clean block (free, used by no
            /// stream) can be allocated. If null and `cost` is `unavailable`, no block was found.
            entry*       where = nullptr;
            availability cost  = availability::unavailable;
        };
        stream_slabs& all;
        slab_heap&    heap;
        /// The pending use of the reserved block (the stream that may still access the block).
        /// `put_back` stores this use in the block again.
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
            // Stores a size that no request has. If the program frees this block while the host
            // waits, the free is then rejected as invalid.
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
