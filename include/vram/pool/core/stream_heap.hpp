// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_heap` is the heap of a pool: a `block_heap` that orders streams, so that each block goes
/// to a stream that may use it.

#include <vram/base/error.hpp>                  // report_error
#include <vram/base/memory_usage.hpp>           // memory_usage
#include <vram/concepts/core/platform_lock.hpp> // platform_lock
#include <vram/concepts/core/refused_free.hpp>  // refused_free
#include <vram/order/core/availability.hpp>     // availability
#include <vram/order/core/stream_timelines.hpp> // stream_timelines
#include <vram/pool/core/block_heaps.hpp>       // block_heaps
#include <vram/pool/core/block_request.hpp>     // block_request
#include <vram/pool/core/quick_lists.hpp>       // quick_lists
#include <vram/pool/free_pieces.hpp>            // free_pieces
#include <vram/pool/pool_options.hpp>           // event_policy

#include <bit>     // countr_zero
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint16_t
#include <utility> // move, exchange

namespace vram {
namespace detail {

/// The reserved memory of a pool, with quick lists and the timelines of its streams. It knows
/// nothing of the upstream. Functions that take a lock guard are called with the lock held. Those
/// that wait on the host unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the lock.
/// Cost      See `block_heap` and `stream_timelines`.
template <class Platform, bool InPlace = false>
class stream_heap {
public:
    using stream          = typename Platform::stream;
    using guard           = typename platform_lock<Platform>::guard;
    using request         = block_request<stream>;
    using chunk           = block_heap::chunk;
    using chunk_extension = block_heap::chunk_extension;

    /// `apart`: small blocks have chunks of their own. `large_limit`: the largest size of the large
    /// block that is cached; 0: large blocks are not cached.
    stream_heap(event_policy events, bool graphs, bool apart = true,
                std::size_t large_limit = quick_lists::large_limit) noexcept
        : heaps_{apart},
          timelines_{events == event_policy::lazy},
          large_limit_{large_limit},
          events_{events},
          graphs_{graphs},
          plain_{events == event_policy::lazy && !graphs} {}
    stream_heap(stream_heap&& other) noexcept : stream_heap{other.events_, other.graphs_} {
        *this = std::move(other);
    }
    stream_heap& operator=(stream_heap&& other) noexcept {
        heaps_       = std::move(other.heaps_);
        quick_       = std::move(other.quick_);
        timelines_   = std::move(other.timelines_);
        live_        = std::exchange(other.live_, 0);
        allocations_ = std::exchange(other.allocations_, 0);
        peak_live_   = std::exchange(other.peak_live_, 0);
        most_live_   = std::exchange(other.most_live_, 0);
        large_limit_ = other.large_limit_;
        holes_       = std::exchange(other.holes_, 0);
        events_      = other.events_;
        graphs_      = other.graphs_;
        plain_       = other.plain_;
        return *this;
    }

    /// Fast path: returns a cached block for this request, or a ready free block that is found
    /// without a search. Returns null if there is neither; `take` may still find a block.
    [[gnu::always_inline]] block* take_quick(stream s, std::size_t asked, std::size_t alignment) {
        if (asked - 1 >= bins::largest || !valid_alignment(alignment)) { return nullptr; }
        std::size_t const bytes = align(asked, bins::granule);
        timeline const&   mine  = timelines_.of(s);
        std::size_t const slot  = mine.slot();
        block*            b     = nullptr;
        if (bytes <= quick_lists::largest) [[likely]] {
            b = quick_.take(slot, bytes, alignment);
        } else {
            b = reuse_large(slot, bytes, alignment);
        }
        if (b != nullptr) [[likely]] {
            b->now = block::state::live;
        } else {
            if (alignment > bins::granule || graphs_) { return nullptr; }
            b = heaps_.of(bytes).take_quick(bytes, slot, timelines_.for_asker(&mine, false));
            if (b == nullptr) { return nullptr; }
        }
        return handed_out(asked, alignment, b);
    }
    /// Fast path of a free on the stream `s`: caches the block, or coalesces a large one. Returns
    /// false and changes nothing if `b` was not allocated with this size and alignment, or if the
    /// free takes more work, which `give` does.
    [[nodiscard, gnu::always_inline]] bool give_quick(block* b, std::size_t bytes,
                                                      std::size_t alignment, stream s) noexcept {
        if (!handed_out_as(b, bytes, alignment) || !plain_) { return false; }
        timeline* c = nullptr;
        try {
            c = timelines_.known(s);
        } catch (...) {} // `give` makes the call again and reports the error
        if (c == nullptr) { return false; }
        retract(*b);
        block_tags::hold(b, {0, 0, c->epoch_of_free(), c->slot()});
        // The requested size, rounded up. It is known without a load from the block, which helps
        // the next allocation. The block may be larger; a branch on that was often mispredicted.
        std::size_t const exact = align_down(bytes + bins::granule - 1, bins::granule);
        if (exact > quick_lists::largest) [[unlikely]] {
            cache_large(b);
        } else {
            quick_.put(b, exact, c->slot());
        }
        return true;
    }
    /// Allocates a block from the reserved memory, or returns null. If each one that fits needs a
    /// wait, the stream (or without one the host) waits; but if `must_wait` is not null, sets it to
    /// true and returns null. `all`: look at every free block.
    void* take(request const& r, guard& held, bool all, bool* must_wait = nullptr) {
        return take_from(heaps_.of(r.bytes), r, held, all, must_wait);
    }
    /// Allocates a block from the heap for the other kind of sizes, small or large. Called if the
    /// own heap has no block and the upstream no memory.
    void* take_elsewhere(request const& r, guard& held) {
        return take_from(heaps_.other_than(heaps_.of(r.bytes)), r, held, true, nullptr);
    }

    /// Allocates a small block from a ready free block between large ones that is too small for any
    /// large block. Returns null if there is none. After 16 such blocks it returns null once, so
    /// that the heap for small blocks grows; otherwise every small block would need this long
    /// search.
    void* take_in_hole(request const& r) {
        block_heap& heap = heaps_.other_than(heaps_.of(r.bytes));
        if (!heaps_.is_small(r.bytes)) { return nullptr; }
        if (holes_ == enough_holes) {
            holes_ = 0;
            return nullptr;
        }
        heap.reserve();
        timeline* const mine  = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        auto const      price = timelines_.for_asker(mine, false);
        auto const      place = heap.find(r.bytes, r.alignment, price, true);
        if (place.where == nullptr || place.cost != availability::ready ||
            place.where->bytes > largest_hole) {
            return nullptr;
        }
        ++holes_;
        return hand_out(r, place)->pointer();
    }

    /// Frees a block that the stream `on` may still use (null: no stream). Returns false and
    /// changes nothing if there is no such block, or if it was allocated with another size or
    /// alignment. `remote`: another thread queued the free, and may be capturing the stream now. If
    /// the stream can be neither recorded nor waited for, the block stays live, and true is
    /// returned.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment, stream const* on,
                            bool remote = false) noexcept {
        if (!handed_out_as(b, bytes, alignment)) { return false; }
        freed const how = on == nullptr ? freed::idle
                          : remote      ? freed_remotely(*on, b)
                                        : freed_on(*on, b);
        if (how == freed::lost) { return true; } // the use is unknown, so the block stays live
        // A cached block that was reused still has the use recorded when it was cached. No stream
        // uses it now, so the use is dropped, unless graphs retain parts of the block.
        if (how == freed::idle && b->slot != block::several) { b->slot = block::nobody; }
        retract(*b);
        if (how == freed::noted && plain_) {
            cache(b);
        } else {
            coalesce(b);
        }
        return true;
    }
    /// Returns the live block at `p`, or null. `bytes` is the size that the caller states.
    [[nodiscard, gnu::always_inline]] block* live(void const* p, std::size_t bytes) const noexcept {
        block* const b = heaps_.live(p, bytes);
        return b != nullptr && b->now == block::state::live ? b : nullptr;
    }

    /// Adds to the error of a rejected free the kind of memory at its address.
    [[gnu::cold]] void explain_refusal(refused_free& e) const noexcept {
        block const* const b = heaps_.around(e.what.pointer);
        if (b == nullptr) { return; }
        if (b->now != block::state::live) {
            e.found_free();
        } else {
            e.found_live(b->pointer(), b->bytes - b->slack, std::size_t{1} << b->alignment);
        }
    }

    /// Adds a chunk that only the stream `on` (null: any) may use without a wait, and allocates `r`
    /// from its front. If `r` is null, the chunk is added to the heap for large blocks, unless it
    /// is small.
    void* add(void* at, std::size_t bytes, std::size_t alignment, stream const* on,
              request const* r) {
        auto const  first = reinterpret_cast<std::uintptr_t>(at);
        block_heap& heap  = heaps_.of(r != nullptr ? r->bytes : bytes);
        tags        held;
        timeline*   mine = nullptr;
        heap.reserve();
        if (on != nullptr) {
            mine = &timelines_.of(*on);
            held = tags{{first, first + bytes, mine->epoch_of_free(), mine->slot()}};
        }
        block* const b = heap.add(at, bytes, alignment, held);
        // Records an event for later users of the rest; the stream may be destroyed by then.
        if (mine != nullptr && events_ == event_policy::eager) { mine->try_record(); }
        return r != nullptr ? hand_out(*r, {b, first})->pointer() : nullptr;
    }
    /// Removes an idle chunk (without a live block) that no stream uses any more, and returns it.
    /// Returns a chunk without bytes if there is none. If no idle chunk is ready, makes the host
    /// wait for the one that is available soonest.
    [[nodiscard]] chunk remove_idle(guard& held) {
        auto const price = timelines_.for_asker(nullptr, false);
        timelines_.readmit();
        for (;;) {
            flush_quick_lists();
            auto const found = heaps_.idle_chunk(price);
            if (found.heap == nullptr) { return {}; }
            tags const pending = found.what().first->waits_for();
            if (price(pending) == availability::ready) { return found.heap->remove(found.index); }
            timeline const* const held_up = timelines_.finish(pending, held);
            if (held_up == nullptr) { continue; }
            if (plain_) {
                heaps_.keep_for_capture(held_up->slot(), held_up->running());
            } else {
                timelines_.exclude(held_up->slot());
            }
        } // other threads may have allocated during the wait, so search again
    }

    /// Finds the chunk that must grow least so that `r` fits at its end, and not before the address
    /// `from(last block)`. The chunk is busy until `end_growth`.
    template <class From = block_heap::front_of>
    [[nodiscard]] chunk_extension begin_growth(request const& r, From const& from = {}) {
        timeline* const mine     = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        bool const      captured = mine != nullptr && Platform::capturing(*r.on);
        return heaps_.of(r.bytes).begin_growth(r.bytes, r.alignment,
                                               timelines_.for_asker(mine, captured), from);
    }
    /// Ends the growth begun by `begin_growth`: the chunk has `by` more bytes at its end, which
    /// have no physical memory yet.
    void end_growth(chunk_extension const& m, std::size_t by) noexcept { heaps_.end_growth(m, by); }

    /// Removes and returns an idle chunk (without a live block) that no stream uses any more.
    /// Returns a chunk without bytes if there is none. Never waits.
    [[nodiscard]] chunk remove_ready() {
        auto const price = timelines_.for_asker(nullptr, false);
        flush_quick_lists();
        auto const found = heaps_.idle_chunk(price);
        if (found.heap == nullptr ||
            price(found.what().first->waits_for()) != availability::ready) {
            return {};
        }
        return found.heap->remove(found.index);
    }
    [[nodiscard]] bool has_idle() const noexcept {
        bool some = false;
        heaps_.for_each_chunk([&](chunk const& c) { some = some || c.idle(); });
        return some;
    }
    void ask_streams() { timelines_.poll(); }
    /// Records events for the pending uses of idle chunks and queries them, to find ready chunks.
    void poll_idle() {
        poll();
        heaps_.for_each_chunk([&](chunk const& c) {
            if (c.idle()) { timelines_.try_record_events(c.first->waits_for()); }
        });
        poll();
    }

    /// Queries the recorded events of all streams, and coalesces free blocks that could not be
    /// coalesced before.
    void poll() {
        timelines_.poll();
        coalesce_pending();
    }
    /// Records events behind frees that have none, queries all streams, and coalesces free blocks
    /// that could not be coalesced before.
    void poll_all() {
        timelines_.try_record_all();
        poll();
    }
    /// Makes the host wait for everything that was freed, then coalesces. Returns false if a stream
    /// is being captured: its latest frees cannot be waited for.
    bool finish(guard& held) {
        bool const all = timelines_.finish_all(held);
        coalesce_pending();
        return all;
    }
    /// Called at the end of the pool: waits for all streams without throwing, and for whole devices
    /// if a block is still live.
    void wait_for_all(guard& held) noexcept {
        if (live_ != 0) { timelines_.wait_for_all_devices(); }
        timelines_.wait_for_all(held);
    }
    /// Registers the stream. If its id is unknown, it is queried, which CUDA forbids in a capture.
    void meet(stream s) { (void)timelines_.of(s); }
    void retire(stream s) {
        flush_quick_lists();
        timelines_.retire(s);
    }
    void forget_captures() noexcept {
        timelines_.forget_captures();
        heaps_.end_captures([this](std::size_t slot) { return timelines_.after_captures(slot); });
        coalesce_pending();
    }

    /// Returns the usage. Cached blocks are coalesced first, so that they count as free memory.
    /// `behind(block)` returns the bytes of a free block that have physical memory.
    template <class Behind>
    [[nodiscard]] memory_usage usage(Behind const& behind) {
        flush_quick_lists();
        memory_usage now{.live = live_, .peak_live = peak_live_, .allocations = allocations_};
        now.reserved = heaps_.reserved();
        now.events   = timelines_.events();
        now.waits    = timelines_.waits();
        heaps_.for_each([&](block const& b) {
            if (b.now == block::state::live) { now.requested += b.bytes - b.slack; }
            if (!is_unused(b)) { return; }
            std::size_t const there = behind(b);
            if (there > now.largest_free) { now.largest_free = there; }
            std::size_t pending = 0;
            tags const  held    = b.waits_for();
            for (tag const& t : held) {
                if (!timelines_.is_complete(t)) { pending += t.end - t.begin; }
            }
            now.pending += pending < there ? pending : there;
        });
        return now;
    }
    /// Returns the sizes of the free blocks. Coalesces cached blocks first. `behind` is that of
    /// `usage`.
    template <class Behind>
    [[nodiscard]] free_pieces free_memory(Behind const& behind) {
        flush_quick_lists();
        free_pieces now;
        heaps_.for_each([&](block const& b) {
            if (is_unused(b)) { now.add(behind(b)); }
        });
        heaps_.for_each_chunk(
            [&](chunk const& c) { now.releasable += goes_back(c) ? behind(*c.first) : 0; });
        return now;
    }
    /// Restarts the peak of live bytes from now, and returns the peak until now.
    std::size_t reset_peak() noexcept {
        most_live_ = most_live();
        return std::exchange(peak_live_, live_);
    }
    void raise_peak(std::size_t to) noexcept { peak_live_ = to > peak_live_ ? to : peak_live_; }

    [[nodiscard]] block_heaps<InPlace> const& blocks() const noexcept { return heaps_; }
    [[nodiscard]] std::size_t                 live_bytes() const noexcept { return live_; }
    /// Returns the description of a leak: number, bytes and the first address of the live blocks.
    /// Cost: a walk over all blocks.
    [[nodiscard]] error leak() const noexcept {
        error e{.kind = error_kind::leak, .bytes = live_};
        heaps_.for_each([&](block const& b) {
            if (b.now != block::state::live) { return; }
            if (e.blocks++ == 0) { e.pointer = b.pointer(); }
        });
        return e;
    }
    /// Returns the highest number of live bytes since the pool was created.
    [[nodiscard]] std::size_t most_live() const noexcept {
        return peak_live_ > most_live_ ? peak_live_ : most_live_;
    }

protected:
    using timeline = typename stream_timelines<Platform>::timeline;

    // Larger holes are more often coalesced into a block that a large request can use. (Up to this
    // size, two of the recorded traces need less memory; from 15/16 on, one needs more.)
    static constexpr std::size_t largest_hole = block_heaps<InPlace>::small_size / 8 * 7;
    static constexpr unsigned    enough_holes = 16;

    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines_.is_complete(t); };
    }
    void* take_from(block_heap& heap, request const& r, guard& held, bool all, bool* must_wait) {
        timeline* const mine     = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        bool            captured = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        if (r.bytes > quick_lists::largest) { flush_large(); }
        if (heap.was_all_freed() && timelines_.several()) { coalesce_all(heap, r); }
        heap.reserve();
        timelines_.readmit();
        bool asked = mine == nullptr || captured || r.bytes <= free_blocks::worth_asking;
        for (;;) {
            auto const price = timelines_.for_asker(mine, captured);
            auto const place = heap.find(r.bytes, r.alignment, price, all);
            if (place.tighter != nullptr && !asked) {
                asked = true; // a larger block is divided only if the better fitting one is in use
                if (ask_about(*place.tighter, *r.on)) { continue; }
            }
            if (place.where != nullptr && place.cost == availability::ready) {
                return (captured ? hand_out_kept(r, place) : hand_out(r, place))->pointer();
            }
            if (flush_for(r)) { // cached blocks may fit, alone or coalesced
                heap.reserve(); // coalescing may have used up the reserved descriptors
                continue;
            }
            if (place.where == nullptr) { return nullptr; }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                captured = true; // a stream that is being captured must not wait
                continue;
            }
            if (must_wait != nullptr) {
                if (!std::exchange(*must_wait, true) && ask_about(*place.where, *r.on)) {
                    continue;
                }
                if (!found_captured(r, place)) { return nullptr; }
                *must_wait = false; // a captured stream cannot be waited for; try the next place
                continue;
            }
            if (block* const b = ordered(r, place, mine, held)) { return b->pointer(); }
            heap.reserve(); // other threads allocated while the lock was released
        }
    }

    /// Returns true if a block is neither live nor reserved for a request.
    [[nodiscard]] static bool is_unused(block const& b) noexcept {
        return b.now != block::state::live && b.now != block::state::reserved;
    }
    /// Returns true if a chunk is idle and no part of it is retained for a graph.
    [[nodiscard]] static bool goes_back(chunk const& c) noexcept {
        return c.idle() && c.first->waits_for().kept().empty();
    }
    /// Coalesces all free blocks of a heap, after queries of the streams that complete as many
    /// pending uses as possible.
    void coalesce_all(block_heap& heap, request const& r) {
        if (r.on != nullptr && Platform::capturing(*r.on)) { return; }
        timelines_.try_record_all();
        for (int looks = 0; looks < 4; ++looks) {
            timelines_.poll();
        } // an event takes microseconds
        flush_quick_lists();
        heap.coalesce_all(is_complete());
    }
    /// Queries if the pending uses of a block are complete, unless `s` is being captured. Returns
    /// true if it queried.
    bool ask_about(block const& b, stream s) {
        if (Platform::capturing(s)) { return false; }
        timelines_.ask(b.waits_for());
        return true;
    }

    /// Makes the stream of `mine` (null: the host) wait for the pending uses of a place, and
    /// allocates it. Returns null if one of the streams waited for is being captured. If captures
    /// are tracked, its frees came before the capture, and the memory becomes available after it.
    /// Otherwise the memory may belong to the graph and is retained from now on.
    block* ordered(request const& r, block_heap::fit const& place, timeline* mine, guard& held) {
        block* const b = ordered_uncounted(r, place, mine, held);
        return b != nullptr ? counted(b) : nullptr;
    }
    /// As `ordered`, but the block is not counted as live yet, because the wait may fail, and other
    /// threads may allocate during it.
    block* ordered_uncounted(request const& r, block_heap::fit const& place, timeline* mine,
                             guard& held) {
        tags const      part = place.where->waits_for().within(place.start, place.start + r.bytes);
        block*          b    = place.where;
        timeline const* held_up; // a stream that is being captured, or null
        if (mine != nullptr) {
            held_up = timelines_.order(*mine, part);
            if (held_up == nullptr) { return hand_out_uncounted(r, place); }
        } else {
            bool const bare = place.where->bare;
            // The block is reserved while the lock is released.
            b                = hand_out_uncounted(r, place);
            block_heap& heap = heaps_.of(*b);
            // Recorded now: during the wait other threads may use up the reserved descriptors.
            heap.hold(b, part);
            try { // more uses may be added during the wait: by memory mapped to the block's pages
                do {
                    tags const now = b->waits_for();
                    held_up        = timelines_.finish(now, held);
                } while (held_up == nullptr && timelines_.for_asker(nullptr, false)(
                                                   b->waits_for()) != availability::ready);
            } catch (...) {
                b->bare = bare;
                coalesce(b);
                throw;
            }
            if (held_up == nullptr) {
                heap.hold(b, tags{});
                return b;
            }
            b->bare = bare;
            b       = coalesce(b);
        }
        set_aside(b, *held_up);
        return nullptr;
    }
    /// Returns true if a place has a pending use by a stream that is being captured, and makes that
    /// memory unavailable.
    bool found_captured(request const& r, block_heap::fit const& place) {
        auto const part = place.where->waits_for().within(place.start, place.start + r.bytes);
        timeline const* const captured = timelines_.in_capture(part);
        if (captured != nullptr) { set_aside(place.where, *captured); }
        return captured != nullptr;
    }
    /// Makes memory freed by a captured stream unavailable: if captures are tracked, all that it
    /// freed since its last event, else that of the block `b`. See `ordered`.
    void set_aside(block* b, timeline const& captured) noexcept {
        if (plain_) {
            block_tags::keep_for_capture(b, captured.slot(), captured.running());
        } else {
            timelines_.exclude(captured.slot());
        }
    }
    /// Reserves a block without counting it as live, because a wait must succeed first. Other
    /// requests do not find it.
    block* hand_out_uncounted(request const& r, block_heap::fit const& place) noexcept {
        std::size_t const peak = peak_live_;
        block* const      b    = hand_out(r, place);
        b->now                 = block::state::reserved;
        retract(*b);
        --allocations_;
        peak_live_ = peak;
        return b;
    }
    block* counted(block* b) noexcept {
        b->now = block::state::live;
        ++allocations_;
        live_ += b->bytes;
        raise_peak(live_);
        return b;
    }

    block* hand_out(request const& r, block_heap::fit const& place) noexcept {
        return handed_out(r.asked, r.alignment, heaps_.of(*place.where).take(place, r.bytes));
    }
    /// Allocates a block on a captured stream. The parts that earlier graphs retain are recorded,
    /// so that they stay retained after the block is freed outside of a capture.
    block* hand_out_kept(request const& r, block_heap::fit const& place) noexcept {
        tags const   before = place.where->waits_for().within(place.start, place.start + r.bytes);
        block* const b      = hand_out(r, place);
        heaps_.of(*b).keep(b, before.kept());
        return b;
    }
    block* handed_out(std::size_t asked, std::size_t alignment, block* b) noexcept {
        b->slack     = static_cast<std::uint16_t>(b->bytes - asked);
        b->alignment = std::countr_zero(alignment) & 63;
        ++allocations_;
        live_ += b->bytes;
        if (live_ > peak_live_) { peak_live_ = live_; }
        return b;
    }
    void retract(block const& b) noexcept { live_ -= b.bytes; }
    /// Counts bytes as live that cannot be used again, because their pending use could be neither
    /// recorded nor waited for.
    void keep_out(std::size_t bytes) noexcept {
        live_ += bytes;
        raise_peak(live_);
    }
    /// Caches a block that its stream has freed, or coalesces it if it cannot be cached.
    void cache(block* b) noexcept {
        if (b->bytes <= quick_lists::largest) { return quick_.put(b, b->bytes, b->slot); }
        cache_large(b);
    }
    /// Caches or coalesces a freed large block. It is not cached before the end of a chunk that
    /// grows, because the used part of a chunk should end as low as possible. Nor is it cached if
    /// no other block of the heap is live, so that a program that repeats itself finds the same
    /// addresses again.
    [[gnu::always_inline]] void cache_large(block* b) noexcept {
        if (live_ == 0 || heaps_.of(*b).live_blocks() <= (quick_.has_large() ? 2U : 1U)) {
            flush_large();
        } else if (b->bytes <= large_limit_ && !(InPlace && is_before_tail(*b))) {
            b = quick_.put_large(b);
            if (b == nullptr) { return; }
        }
        coalesce(b);
    }
    /// Returns true if the next block is the last of its chunk. Only for chunks that can grow,
    /// which always end with a free block.
    [[nodiscard]] static bool is_before_tail(block const& b) noexcept {
        return b.after->after == nullptr;
    }
    /// Returns the cached large block if it has exactly the requested size. Otherwise coalesces it,
    /// because the request may fit into the coalesced block.
    [[gnu::always_inline]] block* reuse_large(std::size_t slot, std::size_t bytes,
                                              std::size_t alignment) noexcept {
        block* const b = quick_.take_large();
        if (b == nullptr) { return nullptr; }
        if (b->bytes == bytes && quick_lists::usable(*b, slot, alignment)) { return b; }
        coalesce(b);
        return nullptr;
    }
    /// Coalesces the cached large block. Returns true if there was one.
    bool flush_large() noexcept {
        block* const b = quick_.take_large();
        if (b != nullptr) { coalesce(b); }
        return b != nullptr;
    }
    /// Puts a block that is no longer live back into the heap and coalesces it.
    [[gnu::noinline]] block* coalesce(block* b) noexcept {
        return heaps_.of(*b).give(b, is_complete());
    }

    void coalesce_pending() noexcept {
        flush_quick_lists();
        heaps_.coalesce_pending(is_complete());
    }
    /// Coalesces all cached blocks. Returns true if there were any.
    bool flush_quick_lists() noexcept {
        bool const large = flush_large();
        return quick_.drain(bins::granule, [&](block* b) { coalesce(b); }) || large;
    }
    /// Coalesces cached blocks (free, kept in lists for requests of their size) for a request that
    /// found no block, and returns true if there were any. For a small request, small cached blocks
    /// stay cached if there are bulky ones: they are many, contain few bytes, and would only be
    /// divided again. If chunks can grow, all are coalesced, because the used part of a chunk
    /// should end as low as possible.
    bool flush_for(request const& r) noexcept {
        bool const few = !InPlace && r.bytes <= quick_lists::largest;
        return (few && quick_.drain(quick_lists::bulky, [&](block* b) { coalesce(b); })) ||
               flush_quick_lists();
    }
    /// Returns true if the block was allocated with this size and alignment.
    [[nodiscard]] static bool handed_out_as(block const* b, std::size_t bytes,
                                            std::size_t alignment) noexcept {
        return b != nullptr && b->bytes - b->slack == bytes &&
               std::size_t{1} << b->alignment == alignment;
    }
    /// Records that the stream in `slot` may use a freed block until `epoch`, in addition to the
    /// parts that graphs retain.
    void hold(block* b, std::uint64_t epoch, std::size_t slot) noexcept {
        if (b->slot != block::several) { return block_tags::hold(b, {0, 0, epoch, slot}); }
        tags all = b->waits_for();
        // An empty list has room for two uses.
        (void)all.merge(tags{{b->address, b->end(), epoch, slot}}, is_complete());
        heaps_.of(*b).hold(b, all);
    }
    /// The result of recording the last use of a freed block.
    enum class freed {
        noted, ///< the stream that may still use the block was recorded
        idle,  ///< no stream uses the block
        /// The use could be neither recorded nor waited for, so the block must stay live.
        lost,
    };
    /// Records that a block is freed on the stream `s`. If that fails, waits for the stream.
    freed freed_on(stream s, block* b) noexcept {
        try {
            timeline& c = timelines_.of(s);
            if (!plain_ && Platform::capturing(s)) {
                hold(b, c.epoch_of_captured_free(), c.slot());
                return freed::noted;
            }
            hold(b, c.epoch_of_free(), c.slot());
            if (events_ == event_policy::eager) { c.try_record(); }
            return freed::noted;
        } catch (...) {
            report_error({.kind = error_kind::platform_error, .pointer = b->pointer()});
        }
        if (timelines_.wait_for_user(s)) { return freed::idle; }
        report_error({.kind = error_kind::leak, .pointer = b->pointer(), .bytes = b->bytes});
        return freed::lost;
    }

    /// Records a free that another thread queued. Its stream is not queried, because that thread
    /// may be capturing it.
    freed freed_remotely(stream s, block* b) noexcept {
        try {
            if (timeline* const c = timelines_.of_another(s)) {
                hold(b, c->epoch_of_free(), c->slot());
                return freed::noted;
            }
        } catch (...) {
            report_error({.kind = error_kind::platform_error, .pointer = b->pointer()});
        }
        if (timelines_.wait_for_all_devices()) { return freed::idle; }
        report_error({.kind = error_kind::leak, .pointer = b->pointer(), .bytes = b->bytes});
        return freed::lost;
    }

    block_heaps<InPlace>       heaps_;
    quick_lists                quick_;
    stream_timelines<Platform> timelines_;
    std::size_t                live_      = 0;
    std::size_t                peak_live_ = 0;
    /// Highest peak of live bytes before it was restarted.
    std::size_t most_live_ = 0;
    std::size_t large_limit_; ///< largest size of the cached large block
    /// Number of small blocks that `take_in_hole` has placed between large ones. It restarts at
    /// `enough_holes`.
    unsigned     holes_ = 0;
    event_policy events_;
    bool         graphs_;
    bool         plain_; ///< true if a free needs neither an event nor a check for captures
    // `allocations_` is not stored beside `live_`: the two would be stored one by one and loaded as
    // a pair, which stalls.
    std::uint64_t allocations_ = 0;
};

} // namespace detail
} // namespace vram
