// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_heap` gives each block to a stream that may have it: a `block_heap` with `clocks`.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/memory_usage.hpp>  // memory_usage
#include <vram/pool/block_heap.hpp>    // block_heap
#include <vram/pool/block_request.hpp> // block_request
#include <vram/pool/clocks.hpp>        // clocks
#include <vram/pool/platform_lock.hpp> // platform_lock
#include <vram/pool/pool_options.hpp>  // event_policy

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // move, exchange

namespace vram {

/// What a pool does with the memory it holds; where that comes from is not known here. Every
/// function that takes the lock's guard is called with it held; those that wait on the host let it
/// go meanwhile.
///
/// Failure   `std::bad_alloc` for want of host memory, and what the platform throws; nothing has
///           changed
/// Threads   one at a time, who holds the lock
/// Cost      see `block_heap` and `clocks`
template <class Platform>
class stream_heap {
public:
    using stream  = typename Platform::stream;
    using guard   = typename platform_lock<Platform>::guard;
    using request = block_request<stream>;
    using chunk   = block_heap::chunk;

    stream_heap(event_policy events, bool graphs) noexcept : events_{events}, graphs_{graphs} {}
    stream_heap(stream_heap&&) = default;
    stream_heap& operator=(stream_heap&& other) noexcept {
        heap_    = std::move(other.heap_);
        clocks_  = std::move(other.clocks_);
        figures_ = std::exchange(other.figures_, {});
        events_  = other.events_;
        graphs_  = other.graphs_;
        return *this;
    }

    /// A block out of what is held, or null. `all`: look at every free block.
    void* take(request const& r, guard& held, bool all) {
        heap_.reserve();
        clock* const mine     = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
        bool         captured = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        for (;;) {
            auto const price = [&](tags const& t) { return clocks_.of(t, mine, captured); };
            auto const place = heap_.find(r.bytes, r.alignment, price, all);
            if (place.where == nullptr) { return nullptr; }
            if (place.cost == 0) { return hand_out(r, place)->pointer(); }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                captured = true; // it can wait for nobody now
                continue;
            }
            if (block* const b = ordered(r, place, mine, held)) { return b->pointer(); }
        }
    }

    /// Takes a block back, which `on` may still be using; null: nobody is. False, with nothing
    /// done, where there is no such block, or where it was taken with another size or alignment.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment,
                            stream const* on) noexcept {
        if (b == nullptr || b->requested != bytes || b->alignment != alignment) { return false; }
        take_back(b, on != nullptr ? freed_on(*on, *b) : tags{});
        return true;
    }
    /// The block handed out at `p`, or null.
    [[nodiscard]] block* live(void const* p) const noexcept { return heap_.live(p); }

    /// Adds a chunk, which the stream `on` may use at once (null: anybody), and takes `r` out of
    /// its front (null: nothing).
    void* add(void* at, std::size_t bytes, std::size_t alignment, stream const* on,
              request const* r) {
        auto const first = reinterpret_cast<std::uintptr_t>(at);
        tags       held;
        heap_.reserve();
        if (on != nullptr) {
            clock& c = clocks_.of(*on);
            held     = tags{{first, first + bytes, c.mark(), c.slot()}};
        }
        block* const b = heap_.add(at, bytes, alignment, held);
        if (heap_.reserved() > figures_.peak_reserved) {
            figures_.peak_reserved = heap_.reserved();
        }
        return r != nullptr ? hand_out(*r, {b, first, 0})->pointer() : nullptr;
    }
    /// Takes an idle chunk that nobody uses any more out of the books; one without bytes if there
    /// is none. Waits on the host for the one that is easiest to have.
    [[nodiscard]] chunk remove_idle(guard& held) {
        auto const price = [&](tags const& t) { return clocks_.of(t, nullptr, false); };
        for (;;) {
            std::size_t const index = heap_.idle_chunk(price);
            if (index == heap_.chunks().size()) { return {}; }
            tags const pending = heap_.chunks()[index].first->waits_for;
            if (price(pending) == 0) { return heap_.remove(index); }
            clock const* const held_up = clocks_.finish(pending, held);
            if (held_up != nullptr) { heap_.keep_for_capture(held_up->slot()); }
        } // others went on meanwhile: look again
    }

    /// Asks the streams how far they are, and joins what can be joined now.
    void poll() {
        clocks_.poll();
        tidy();
    }
    /// Waits on the host for everything that was freed.
    void finish(guard& held) {
        clocks_.finish_all(held);
        tidy();
    }
    /// The same where nothing may be thrown, for whole devices where something is still out.
    void settle(guard& held) noexcept {
        if (figures_.live != 0) { clocks_.settle_devices(); }
        clocks_.settle_all(held);
    }
    void retire(stream s) { clocks_.retire(s); }
    void forget_captures() noexcept {
        clocks_.forget_captures();
        heap_.tidy([&](tag const& t) { return t.epoch == tag::captured || clocks_.settled(t); });
    }

    [[nodiscard]] memory_usage usage() const {
        memory_usage now = figures_;
        now.reserved     = heap_.reserved();
        now.largest_free = heap_.largest_free();
        now.events       = clocks_.events();
        now.waits        = clocks_.waits();
        heap_.for_each([&](block const& b) {
            std::size_t pending = 0;
            for (tag const& t : b.waits_for) {
                if (!clocks_.settled(t)) { pending += t.end - t.begin; }
            }
            now.pending += pending < b.bytes ? pending : b.bytes;
        });
        return now;
    }
    [[nodiscard]] block_heap const& blocks() const noexcept { return heap_; }
    [[nodiscard]] std::size_t       live_bytes() const noexcept { return figures_.live; }

private:
    using clock = typename clocks<Platform>::clock;

    /// Hands out a place that must be waited for. Null: it is being used by a captured stream, and
    /// is kept for that from now on.
    block* ordered(request const& r, block_heap::fit const& place, clock* mine, guard& held) {
        tags const   part = place.where->waits_for.within(place.start, place.start + r.bytes);
        block*       b    = place.where;
        clock const* held_up; // a stream that is being captured
        if (mine != nullptr) {
            held_up = clocks_.order(*mine, part);
            if (held_up == nullptr) { return hand_out(r, place); }
        } else {
            b = hand_out(r, place); // ours while the lock is open
            try {
                held_up = clocks_.finish(part, held);
            } catch (...) {
                take_back(b, part);
                --figures_.allocations;
                throw;
            }
            if (held_up == nullptr) { return b; }
            b = take_back(b, part);
            --figures_.allocations;
            heap_.reserve();
        }
        b->waits_for.keep_for_capture(held_up->slot());
        return nullptr;
    }

    block* hand_out(request const& r, block_heap::fit const& place) noexcept {
        block* const b = heap_.take(place, r.bytes);
        b->requested   = r.asked;
        b->alignment   = r.alignment;
        ++figures_.allocations;
        figures_.requested += r.asked;
        figures_.live += r.bytes;
        if (figures_.live > figures_.peak_live) { figures_.peak_live = figures_.live; }
        return b;
    }
    block* take_back(block* b, tags const& held_by) noexcept {
        figures_.requested -= b->requested;
        figures_.live -= b->bytes;
        return heap_.give(b, held_by, [&](tag const& t) { return clocks_.settled(t); });
    }
    void tidy() noexcept {
        heap_.tidy([&](tag const& t) { return clocks_.settled(t); });
    }

    /// The tag of a block that is freed on `s`. Where there can be none, the stream is waited for.
    tags freed_on(stream s, block const& b) noexcept {
        try {
            clock&     c     = clocks_.of(s);
            bool const eager = events_ == event_policy::eager;
            if ((eager || graphs_) && Platform::capturing(s)) {
                return tags{{b.address, b.end(), c.mark_captured(), c.slot()}};
            }
            tags const out{{b.address, b.end(), c.mark(), c.slot()}};
            if (eager) { c.try_record(); }
            return out;
        } catch (...) { report_error({.kind = mishap::platform_error, .pointer = b.pointer()}); }
        clocks<Platform>::settle(s);
        return {};
    }

    block_heap       heap_;
    clocks<Platform> clocks_;
    memory_usage     figures_;
    event_policy     events_;
    bool             graphs_;
};

} // namespace vram
