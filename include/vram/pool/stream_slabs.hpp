// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_slabs` hands blocks of `slab_heap`s to whichever stream may have them.

#include <vram/base/error.hpp>              // report_error
#include <vram/base/report_caught.hpp>      // report_caught
#include <vram/concepts/name_of_stream.hpp> // name_of_stream
#include <vram/pool/availability.hpp>       // availability
#include <vram/pool/clocks.hpp>             // clocks
#include <vram/pool/event_policy.hpp>       // event_policy
#include <vram/pool/platform_lock.hpp>      // platform_lock
#include <vram/pool/slab_heap.hpp>          // slab_heap

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange, move

namespace vram {

/// The clocks of the streams, for any number of heaps. Every function that takes the lock's guard
/// is called with it held; those that wait on the host let it go meanwhile.
///
/// Failure   `std::bad_alloc` for want of host memory, and what the platform throws; nothing has
///           changed
/// Threads   one at a time, who holds the lock
/// Cost      a stream's own blocks and clean ones: constant, and no call of the platform (with
///           `event_policy::eager`, for the stream's id). Else one look at every stream that was
///           met, and the platform is asked
template <class Platform>
class stream_slabs {
public:
    using stream = typename Platform::stream;
    using guard  = typename platform_lock<Platform>::guard;
    using note   = slab_heap::note;
    using chunk  = slab_heap::chunk;

    stream_slabs(event_policy events, bool graphs) noexcept
        : clocks_{events == event_policy::lazy}, events_{events}, graphs_{graphs} {}
    stream_slabs(stream_slabs&&) = default;
    stream_slabs& operator=(stream_slabs&& other) noexcept {
        clocks_ = std::move(other.clocks_);
        events_ = other.events_;
        graphs_ = other.graphs_;
        return *this;
    }

    /// A block out of what `heap` holds, for the stream `on` (null: for anybody, at once), or null.
    /// `must_wait` (null: of no interest): where it would take a wait it says so, and there is
    /// none.
    [[nodiscard]] note* take(slab_heap& heap, stream const* on, guard& held,
                             bool* must_wait = nullptr) {
        clock* const mine     = on != nullptr ? &clocks_.of(*on) : nullptr;
        bool const   captured = mine != nullptr && graphs_ && Platform::capturing(*on);
        if (mine != nullptr) {
            heap.reserve_slot(mine->slot()); // else a block that comes back might find no place
            note* const n = captured ? heap.take_kept(mine->slot()) : heap.take_own(mine->slot());
            if (n != nullptr) { return n; }
        }
        if (note* const n = heap.take_clean()) { return n; }
        if (heap.blocks_free() == 0) { return nullptr; }
        return take_anothers(heap, on, mine, captured, held, must_wait);
    }

    /// Takes a block back, which `on` may still be using; null: nobody is. False: it stays out, for
    /// nobody knows who uses it, and nobody could be waited for.
    bool give(slab_heap& heap, note* n, stream const* on) noexcept {
        if (on == nullptr) { return give_unused(heap, n); }
        try {
            clock& c = clocks_.of(*on);
            heap.reserve_slot(c.slot());
            bool const eager = events_ == event_policy::eager;
            bool const looks = eager || graphs_;
            if (looks && Platform::capturing(*on)) {
                (void)c.mark_captured();
                bool const others = n->lent && n->slot != c.slot(); // two graphs, of two streams
                if (others) { return give_unused(heap, n); }
                heap.keep(n, c.slot());
                return true;
            }
            if (looks && n->lent) {
                heap.lay_aside(n, c.slot(), c.mark());
            } else {
                heap.give(n, c.slot(), c.mark());
            }
            if (eager) { c.try_record(); }
            return true;
        } catch (...) {
            report_caught({.kind    = error_kind::platform_error,
                           .pointer = n->address,
                           .stream  = name_of_stream<Platform>(*on),
                           .call    = "asking the stream of a free how far it is"});
        }
        if (clocks_.settle_user(*on)) { return give_unused(heap, n); }
        report_error({.kind    = error_kind::leak,
                      .pointer = n->address,
                      .bytes   = heap.stride(),
                      .stream  = name_of_stream<Platform>(*on),
                      .cause   = "its stream could not be asked, or waited for"});
        return false;
    }

    /// Adds a chunk, which the stream `order` may use at once (null: anybody), and takes a block of
    /// it for `on`, which is `order` where that is not null.
    note* add(slab_heap& heap, void* base, std::size_t bytes, stream const* order,
              stream const* on) {
        clock* const mine = on != nullptr ? &clocks_.of(*on) : nullptr;
        if (order == nullptr) {
            heap.add(base, bytes, nullptr);
            return heap.take_clean();
        }
        slab_heap::holder const first{mine->slot(), mine->mark()};
        heap.add(base, bytes, &first);
        if (events_ == event_policy::eager) { mine->try_record(); } // for who takes what is left
        return heap.take_own(mine->slot());
    }
    /// A chunk none of whose blocks are out and that nobody uses any more, or null. Waits on the
    /// host where it must.
    [[nodiscard]] chunk* idle(slab_heap& heap, guard& held) {
        clocks_.look_again();
        for (;;) {
            settle(heap);
            note* almost = nullptr; // of a chunk that waits, and for nothing that is kept
            for (chunk* c : heap.chunks()) {
                if (c->out != 0) { continue; }
                if (c->waiting() == 0) { return c; }
                if (almost != nullptr) { continue; }
                note* const n = waiting(*c);
                if (n != nullptr && !held_up(*n)) { almost = n; }
            }
            if (almost == nullptr) { return nullptr; }
            std::size_t const slot = almost->slot;
            if (clocks_.finish(tag_of(*almost), held) != nullptr && !keep_all(heap, slot)) {
                clocks_.pass_over(slot);
            }
        } // others went on meanwhile: look again
    }

    /// The stream uses memory that is not from here: its device is waited for at the end as well,
    /// if this is the time to ask which that is.
    void meet(stream s) noexcept {
        try {
            (void)clocks_.of(s);
        } catch (...) {} // nobody has it yet, so there may be nothing to wait for
    }
    void poll() { clocks_.poll(); }
    /// What streams have passed is clean.
    void settle(slab_heap& heap) noexcept {
        heap.settle([&](std::size_t slot, std::uint64_t epoch) {
            return clocks_.settled(tag{0, 0, epoch, slot});
        });
    }
    /// The end: waits for everything, for whole devices where something is still out.
    void settle_all(bool something_out, guard& held) noexcept {
        if (something_out) { clocks_.settle_everybody(); }
        clocks_.settle_all(held);
    }
    void retire(stream s) { clocks_.retire(s); }
    void forget_captures() noexcept { clocks_.forget_captures(); }
    void end_captures(slab_heap& heap) noexcept {
        heap.end_captures([this](std::size_t slot) { return clocks_.after_captures(slot); });
    }

    /// Blocks of `heap` that some stream may still be using.
    [[nodiscard]] std::size_t pending(slab_heap const& heap) const noexcept {
        std::size_t count = 0;
        for (chunk const* c : heap.chunks()) {
            if (c->waiting() == 0) { continue; }
            for (note const& n : c->notes) {
                count += n.at == place::kept ||
                         (n.at == place::waiting && !clocks_.settled(*tag_of(n).begin()));
            }
        }
        return count;
    }
    [[nodiscard]] std::uint64_t events() const noexcept { return clocks_.events(); }
    [[nodiscard]] std::uint64_t waits() const noexcept { return clocks_.waits(); }

private:
    using clock = typename clocks<Platform>::clock;
    using place = slab_heap::place;

    [[nodiscard]] static tags tag_of(note const& n) noexcept {
        return tags{{0, 0, n.epoch, n.slot}};
    }

    /// Whether a block's stream is passed over, for it is being captured.
    [[nodiscard]] bool held_up(note const& n) const noexcept {
        return clocks_.of(tag_of(n), nullptr, false) == availability::unavailable;
    }

    /// Takes a block back that no stream uses; perhaps a graph still does.
    static bool give_unused(slab_heap& heap, note* n) noexcept {
        n->lent ? heap.lay_aside(n, n->slot, 0) : heap.give_clean(n);
        return true;
    }

    /// A block that another stream gave back: one that is done with, or waited for already, and
    /// else one that must be waited for.
    note* take_anothers(slab_heap& heap, stream const* on, clock* mine, bool captured, guard& held,
                        bool* must_wait) {
        clocks_.look_again();
        std::size_t held_up = 0; // streams before it cannot be waited for
        for (bool asked = false;;) {
            note* dear = nullptr;
            for (std::size_t slot = 0; slot < heap.slots(); ++slot) {
                note* const n = heap.oldest(slot);
                if (n == nullptr) { continue; }
                auto const price = clocks_.of(tag_of(*n), mine, captured);
                if (price == availability::ready) { return heap.take(n); }
                if (price == availability::needs_wait && dear == nullptr && slot >= held_up) {
                    dear = n;
                }
            }
            if (dear == nullptr) { return nullptr; }
            if (mine != nullptr && !captured && Platform::capturing(*on)) {
                captured = true; // it can wait for nobody now, nor ask
                continue;
            }
            if (!std::exchange(asked, true)) {
                clocks_.poll();
                settle(heap);
                if (note* const n = heap.take_clean()) { return n; }
                continue;
            }
            std::size_t const slot = dear->slot;
            if (must_wait != nullptr) {
                if (!std::exchange(*must_wait, true)) { // it may be done, and no event say so yet
                    clocks_.ask(tag_of(*dear));
                    continue;
                }
                if (clocks_.in_capture(tag_of(*dear)) == nullptr) { return nullptr; }
                *must_wait = false; // there is no waiting for that; the next is asked again
            } else if (note* const n = ordered(heap, dear, mine, held)) {
                return n;
            }
            if (!keep_all(heap, slot)) { held_up = slot + 1; }
            if (note* const n = heap.take_clean()) { return n; } // from while the lock was open
        }
    }
    /// The block `n`, waited for. Null: its stream is being captured.
    note* ordered(slab_heap& heap, note* n, clock* mine, guard& held) {
        tags const        waits_for = tag_of(*n);
        std::size_t const slot      = n->slot;
        if (mine != nullptr) {
            if (clocks_.order(*mine, waits_for) == nullptr) { return heap.take(n); }
        } else {
            heap.take(n); // ours while the lock is open, and nobody's to give back
            n->asked     = unsatisfiable;
            bool held_up = false;
            try {
                held_up = clocks_.finish(waits_for, held) != nullptr;
            } catch (...) {
                heap.give_oldest(n, slot, waits_for.begin()->epoch);
                throw;
            }
            if (!held_up) { return n; }
            heap.give_oldest(n, slot, waits_for.begin()->epoch);
        }
        return nullptr;
    }
    /// A stream is being captured, and some of what waits for it has no event yet. Where captures
    /// are looked for, all of that was given before this one: false, it waits until the capture
    /// ends. Else it may be the graph's, and is kept.
    bool keep_all(slab_heap& heap, std::size_t slot) noexcept {
        if (graphs_ || events_ == event_policy::eager) { return false; }
        note* n = heap.newest(slot);
        for (; n != nullptr && !clocks_.covered(slot, n->epoch); n = heap.newest(slot)) {
            heap.keep(heap.take(n), slot);
        }
        return true;
    }
    [[nodiscard]] static note* waiting(chunk& c) noexcept {
        note* found = nullptr;
        for (note& n : c.notes) {
            if (n.at == place::kept) { return nullptr; }
            if (n.at == place::waiting) { found = &n; }
        }
        return found;
    }

    clocks<Platform> clocks_;
    event_policy     events_;
    bool             graphs_;
};

} // namespace vram
