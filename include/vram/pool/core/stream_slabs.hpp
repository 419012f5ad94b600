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

/// Selects free blocks of a `slab_heap` for a stream, and makes streams or the host wait if
/// necessary. Owns the streams' records. Functions with a `guard` release the lock during waits of
/// the host.
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

    /// Allocates a block for the stream `on` (null: the host), which waits if necessary, or returns
    /// null. If `must_wait` is not null, sets it to true instead of waiting, and returns null.
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

    /// Frees the block `n`, which the stream `on` (null: none) may still use. Returns false, and
    /// the block stays live, if that use can be neither recorded nor awaited.
    bool give(slab_heap& heap, entry* n, stream const* on) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) {
            heap.reserve_slot(slot);
            if (epoch != tag::captured) {
                n->in_graph ? heap.quarantine(n, slot, epoch) : heap.give(n, slot, epoch);
            } else if (n->in_graph && n->slot != slot) {
                // Graphs of two streams may use the block, so no stream may allocate it until
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

    /// Adds a chunk, and allocates a block of it for the stream `on` (null: the host). `order` is
    /// the stream for which other streams must wait before they use the chunk: `on`, or null for
    /// none.
    entry* add(slab_heap& heap, void* base, std::size_t bytes, stream const* order,
               stream const* on) {
        timeline* const mine = on != nullptr ? &timelines().of(*on) : nullptr;
        if (order == nullptr) {
            heap.add(base, bytes, nullptr);
            return heap.take_clean();
        }
        slab_heap::holder const first{mine->slot(), mine->epoch_of_free()};
        heap.add(base, bytes, &first);
        // Before other streams use the rest of the chunk, they wait for an event of this one: with
        // `event_policy::eager`, records it now.
        arbiter_.record_if_eager(*mine);
        return heap.take_own(mine->slot());
    }
    /// Returns a chunk that has no live block and is used by no stream, perhaps after a wait of the
    /// host. Returns null if there is none.
    [[nodiscard]] chunk* idle(slab_heap& heap, guard& held) {
        timelines().readmit();
        for (;;) {
            collect_complete(heap);
            // The block for whose stream the host waits if streams use every chunk without a live
            // block. Null: no wait helps.
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
    /// Makes the host wait until no stream uses freed memory. If a block is still live
    /// (`something_out`), first waits for devices, because its users are unknown.
    void wait_for_all(bool something_out, guard& held) noexcept {
        if (something_out) { timelines().wait_for_all_devices(); }
        timelines().wait_for_all(held);
    }
    void retire(stream s) { timelines().retire(s); }
    /// Makes the host wait for devices if memory is kept for captured graphs. Returns true if it
    /// waited: the caller must then call `end_captures` of each heap.
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

    /// Returns true if the free block is withheld for a capture or a captured graph, so that no
    /// wait makes it available.
    [[nodiscard]] bool held_up(entry const& n) const noexcept {
        return timelines().of(tag_of(n), nullptr, false) == availability::unavailable;
    }

    /// Frees a block that no stream uses. If a captured graph may use it, no stream can allocate
    /// the block until `forget_captures`; otherwise every stream can at once.
    static void give_unused(slab_heap& heap, entry* n) noexcept {
        n->in_graph ? heap.quarantine(n, n->slot, 0) : heap.give_clean(n);
    }
    /// Keeps the blocks that the captured stream `slot` has freed since its last event for its
    /// graphs: other streams cannot allocate them until `end_captures`.
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
            /// The selected block. If null, any clean block (free, used by no stream) may be taken
            /// if `cost` is `ready`; otherwise no block was found.
            entry*       where = nullptr;
            availability cost  = availability::unavailable;
        };
        stream_slabs& all;
        slab_heap&    heap;
        /// The pending use of the block that `reserve` has reserved; `put_back` stores it in the
        /// block again.
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
            // While the host waits, the block is only reserved: `asked` is a size that no request
            // has, so a free of this block is rejected.
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
