// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_heap` is the heap of a pool: a `block_heap` that orders streams, so that each block goes
/// to a stream that may use it.

#include <vram/base/error.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/order/core/availability.hpp>
#include <vram/pool/core/block_cache.hpp>
#include <vram/pool/core/block_candidates.hpp>
#include <vram/pool/core/block_request.hpp>
#include <vram/pool/core/block_survey.hpp>
#include <vram/pool/core/live_counts.hpp>
#include <vram/pool/core/stream_arbiter.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/pool_options.hpp> // event_policy

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// The reserved memory of a pool, its cached blocks, and the records of its streams. Does not call
/// the upstream. Functions with a `guard` release the lock during waits of the host.
///
/// Failure   Errors of the platform and `std::bad_alloc` are rethrown; nothing has changed then.
/// Threads   One thread at a time, which holds the pool's lock.
template <class Platform, bool InPlace = false>
class stream_heap {
public:
    using arbiter         = stream_arbiter<Platform>;
    using stream          = typename arbiter::stream;
    using guard           = typename arbiter::guard;
    using request         = block_request<stream>;
    using chunk           = block_heap::chunk;
    using chunk_extension = block_heap::chunk_extension;

    /// `apart`: small blocks come from separate chunks. `large_limit`: largest size of the one
    /// large block that is cached when freed; 0: none is cached.
    stream_heap(event_policy events, bool graphs, bool apart = true,
                std::size_t large_limit = quick_lists::large_limit) noexcept
        : cache_{apart, large_limit}, arbiter_{events, graphs} {}

    /// Fast path: allocates `asked` bytes for the stream `s` from a cached or free block, without a
    /// wait or a search. Returns null if `take` must search.
    [[gnu::always_inline]] block* take_quick(stream s, std::size_t asked, std::size_t alignment) {
        if (asked - 1 >= bins::largest || !valid_alignment(alignment)) { return nullptr; }
        std::size_t const bytes = align(asked, bins::granule);
        timeline const&   mine  = timelines().of(s);
        std::size_t const slot  = mine.slot();
        block*            b     = cache_.take(slot, bytes, alignment, is_complete());
        if (b != nullptr) [[likely]] {
            b->now = block::state::live;
        } else {
            if (alignment > bins::granule || arbiter_.tracks_graphs()) { return nullptr; }
            b = heaps().of(bytes).take_quick(bytes, slot, timelines().for_asker(&mine, false));
            if (b == nullptr) { return nullptr; }
        }
        return handed_out(asked, alignment, b);
    }
    /// Fast path of a free on the stream `s`: caches the block. Returns false, and changes nothing,
    /// if `give` must check the free, query a capture, record an event or create a stream's record.
    [[nodiscard, gnu::always_inline]] bool give_quick(block* b, std::size_t bytes,
                                                      std::size_t alignment, stream s) noexcept {
        if (!handed_out_as(b, bytes, alignment) || !arbiter_.plain()) { return false; }
        timeline* c = nullptr;
        try {
            c = timelines().known(s);
        } catch (...) {} // `give` makes the call again and reports the error
        if (c == nullptr) { return false; }
        counts_.retract(b->bytes);
        block_tags::hold(b, {0, 0, c->epoch_of_free(), c->slot()});
        // Chooses the quick list (cached blocks of one size) by the requested size: reading
        // `b->bytes`, which may be larger, would delay the next allocation from that list.
        std::size_t const exact = align_down(bytes + bins::granule - 1, bins::granule);
        cache_.put(b, exact, c->slot(), counts_, is_complete());
        return true;
    }
    /// Allocates from the reserved memory, or returns null. `all`: examines every free block. If a
    /// wait is needed and `must_wait` is not null, sets it to true instead of waiting.
    void* take(request const& r, guard& held, bool all, bool* must_wait = nullptr) {
        return take_from(heaps().of(r.bytes), r, held, all, must_wait);
    }
    /// Allocates from the heap of the other range of sizes (small or large), if necessary after a
    /// wait. Returns null if no block fits.
    void* take_elsewhere(request const& r, guard& held) {
        return take_from(heaps().other_than(heaps().of(r.bytes)), r, held, true, nullptr);
    }

    /// Allocates a small block in a free block of the heap for large ones, without a wait, or
    /// returns null. After 16 such blocks it returns null once: the heap for small ones may then
    /// grow.
    void* take_in_hole(request const& r) {
        block_heap& heap = heaps().other_than(heaps().of(r.bytes));
        if (!heaps().is_small(r.bytes)) { return nullptr; }
        if (holes_ == enough_holes) {
            holes_ = 0;
            return nullptr;
        }
        heap.reserve();
        timeline* const mine  = r.on != nullptr ? &timelines().of(*r.on) : nullptr;
        auto const      price = timelines().for_asker(mine, false);
        auto const      place = heap.find(r.bytes, r.alignment, price, true);
        if (place.where == nullptr || place.cost != availability::ready ||
            place.where->bytes > largest_hole) {
            return nullptr;
        }
        ++holes_;
        return hand_out(r, place)->pointer();
    }

    /// Frees the block `b`, which the stream `on` (null: none) may still use. Returns false, and
    /// changes nothing, if the free is invalid. `remote`: another thread queued the free.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment, stream const* on,
                            bool remote = false) noexcept {
        if (!handed_out_as(b, bytes, alignment)) { return false; }
        freed const how = on == nullptr ? freed::idle : record_free(*on, b, remote);
        // The free was valid, hence true, but its stream could be neither recorded nor waited for:
        // the block stays live.
        if (how == freed::lost) { return true; }
        // Clears the stream of an earlier free of this memory. `several` marks a list of uses,
        // which stays because it contains uses by captured graphs.
        if (how == freed::idle && b->slot != block::several) { b->slot = block::nobody; }
        counts_.retract(b->bytes);
        if (how == freed::recorded && arbiter_.plain()) {
            cache_.put(b, b->bytes, b->slot, counts_, is_complete());
        } else {
            coalesce(b);
        }
        return true;
    }
    /// Returns the live block at `p`, or null. `bytes` is the caller's size: the search begins in
    /// the heap for that size.
    [[nodiscard, gnu::always_inline]] block* live(void const* p, std::size_t bytes) const noexcept {
        block* const b = heaps().live(p, bytes);
        return b != nullptr && b->now == block::state::live ? b : nullptr;
    }

    /// Completes the error of a rejected free if its address is in a chunk: double free, interior
    /// pointer, wrong size or wrong alignment.
    [[gnu::cold]] void explain_refusal(refused_free& e) const noexcept {
        survey().explain_refusal(e);
    }

    /// Adds a chunk that only the stream `on` (null: any) may use without a wait. If `r` is not
    /// null, allocates it from that chunk; otherwise returns null.
    void* add(void* at, std::size_t bytes, std::size_t alignment, stream const* on,
              request const* r) {
        auto const  first = reinterpret_cast<std::uintptr_t>(at);
        block_heap& heap  = heaps().of(r != nullptr ? r->bytes : bytes);
        tags        held;
        timeline*   mine = nullptr;
        heap.reserve();
        if (on != nullptr) {
            mine = &timelines().of(*on);
            held = tags{{first, first + bytes, mine->epoch_of_free(), mine->slot()}};
        }
        block* const b = heap.add(at, bytes, alignment, held);
        // Other streams must wait for an event of `on` before they use the chunk. With
        // `event_policy::eager`, records it now, because `on` may be destroyed before that.
        if (mine != nullptr) { arbiter_.record_if_eager(*mine); }
        return r != nullptr ? hand_out(*r, {b, first})->pointer() : nullptr;
    }
    /// Removes and returns a chunk without a live block, if necessary after a wait of the host for
    /// its users. If there is none, the result has 0 bytes.
    [[nodiscard]] chunk remove_idle(guard& held) {
        auto const price = timelines().for_asker(nullptr, false);
        timelines().readmit();
        for (;;) {
            flush_quick_lists();
            auto const found = heaps().idle_chunk(price);
            if (found.heap == nullptr) { return {}; }
            tags const pending = found.what().first->waits_for();
            if (price(pending) == availability::ready) { return found.heap->remove(found.index); }
            arbiter_.wait_on_host(pending, held, [this](timeline const& captured) {
                heaps().keep_for_capture(captured.slot(), captured.covered() + 1);
            });
        } // other threads may have allocated during the wait, so search again
    }

    /// Returns the plan to extend the chunk that needs the fewest more bytes for `r`, and blocks
    /// other plans for it until `end_growth`. Null `base`: there is none. `from(last block of a
    /// chunk)` returns the first address permitted for `r`.
    template <class From = block_heap::front_of>
    [[nodiscard]] chunk_extension begin_growth(request const& r, From const& from = {}) {
        timeline* const mine  = r.on != nullptr ? &timelines().of(*r.on) : nullptr;
        auto const      price = timelines().for_asker(mine, arbiter::is_captured(r.on));
        return heaps().of(r.bytes).begin_growth(r.bytes, r.alignment, price, from);
    }
    /// Ends the growth that `begin_growth` has planned: the chunk has `by` more bytes of addresses
    /// at its end, without physical memory yet. 0: the growth failed.
    void end_growth(chunk_extension const& m, std::size_t by) noexcept {
        heaps().end_growth(m, by);
    }

    /// Removes and returns a chunk that has no live block and is used by no stream, or a chunk
    /// without bytes. Never waits.
    [[nodiscard]] chunk remove_ready() {
        auto const price = timelines().for_asker(nullptr, false);
        flush_quick_lists();
        auto const found = heaps().idle_chunk(price);
        if (found.heap == nullptr ||
            price(found.what().first->waits_for()) != availability::ready) {
            return {};
        }
        return found.heap->remove(found.index);
    }
    [[nodiscard]] bool has_idle() const noexcept {
        bool some = false;
        heaps().for_each_chunk([&](chunk const& c) { some = some || c.idle(); });
        return some;
    }
    void ask_streams() { timelines().poll(); }
    /// Prepares `remove_ready`: records the events that are missing behind frees in chunks without
    /// a live block, and queries all events, so that it finds unused chunks.
    void poll_idle() {
        poll();
        heaps().for_each_chunk([&](chunk const& c) {
            if (c.idle()) { timelines().try_record_events(c.first->waits_for()); }
        });
        poll();
    }

    /// Queries the events of all streams, and coalesces the blocks that streams no longer use.
    void poll() {
        timelines().poll();
        coalesce_pending();
    }
    /// Coalesces the blocks that streams no longer use. If there are several streams, first tries
    /// to record the events that are missing behind frees, because only events show that a stream
    /// is done.
    void poll_all() {
        timelines().try_record_all();
        poll();
    }
    /// Makes the host wait until no stream uses freed memory, except in captured graphs, and
    /// coalesces that memory. Returns false if a running capture prevented a wait.
    bool finish(guard& held) {
        bool const all = timelines().finish_all(held);
        coalesce_pending();
        return all;
    }
    /// Makes the host wait for all streams; first for whole devices if a block is still live,
    /// because its users are unknown. Never throws.
    void wait_for_all(guard& held) noexcept {
        if (live_bytes() != 0) { timelines().wait_for_all_devices(); }
        timelines().wait_for_all(held);
    }
    /// Creates the record of the stream `s` before a capture: this may query the stream's id, which
    /// CUDA forbids during a capture.
    void register_stream(stream s) { (void)timelines().of(s); }
    void retire(stream s) {
        flush_quick_lists();
        timelines().retire(s);
    }
    void forget_captures(guard held) {
        if (timelines().finish_graphs(held) == 0) { return; }
        flush_quick_lists(); // `end_captures` requires empty quick lists
        heaps().end_captures();
        coalesce_pending();
    }

    /// Returns the usage; cached blocks count as free. `behind(block)` returns the number of bytes
    /// of a free block that have physical memory.
    template <class Behind>
    [[nodiscard]] memory_usage usage(Behind const& behind) {
        flush_quick_lists();
        memory_usage now{.live        = counts_.live(),
                         .peak_live   = counts_.peak(),
                         .allocations = counts_.allocations()};
        now.events = timelines().events();
        now.waits  = timelines().waits();
        survey().measure(now, behind, is_complete());
        return now;
    }
    /// Returns the statistics of all free blocks. `behind(block)` returns how many bytes of a free
    /// block have physical memory; only these bytes count.
    template <class Behind>
    [[nodiscard]] free_pieces free_memory(Behind const& behind) {
        flush_quick_lists();
        return survey().free_memory(behind);
    }
    /// `reset_peak` returns the peak of the live bytes and lowers it to the bytes live now.
    /// `raise_peak` raises it to at least `to`.
    std::size_t reset_peak() noexcept { return counts_.reset_peak(); }
    void        raise_peak(std::size_t to) noexcept { counts_.raise_peak(to); }

    [[nodiscard]] block_heaps<InPlace> const& blocks() const noexcept { return heaps(); }
    [[nodiscard]] std::size_t                 live_bytes() const noexcept { return counts_.live(); }
    [[nodiscard]] std::size_t most_live() const noexcept { return counts_.most_live(); }
    /// Returns the error that describes a leak: number, bytes and first address of the live blocks.
    [[nodiscard]] error leak() const noexcept { return survey().leak(live_bytes()); }

protected:
    using timeline   = typename arbiter::timeline;
    using candidates = block_candidates<Platform, InPlace>;
    using freed      = typename arbiter::freed;

    [[nodiscard]] auto&       heaps() noexcept { return cache_.heaps(); }
    [[nodiscard]] auto const& heaps() const noexcept { return cache_.heaps(); }
    [[nodiscard]] auto&       timelines() noexcept { return arbiter_.timelines(); }
    [[nodiscard]] auto const& timelines() const noexcept { return arbiter_.timelines(); }
    [[nodiscard]] auto        survey() const noexcept { return block_survey<InPlace>{heaps()}; }

    // Size in bytes of the largest free block in which `take_in_hole` places small blocks. Larger
    // ones stay available for large requests.
    static constexpr std::size_t largest_hole = block_heaps<InPlace>::small_size / 8 * 7;
    static constexpr unsigned    enough_holes = 16;

    // Returns a function that takes a `tag` (a stream's pending use of freed memory) and returns
    // true if that use is complete. It captures `this`, which a fast free has in a register.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines().is_complete(t); };
    }
    void* take_from(block_heap& heap, request const& r, guard& held, bool all, bool* must_wait) {
        auto const who = arbiter_.asker_for(r.on);
        if (r.bytes > quick_lists::largest) { cache_.flush_large(is_complete()); }
        if (heap.was_all_freed() && timelines().several()) { coalesce_all(heap, r); }
        // Before a large request divides a ready block, queries if streams are done with a block
        // that fits better.
        bool const asks =
            who.mine != nullptr && !who.captured && r.bytes > free_blocks::worth_asking;
        candidates   found{cache_, arbiter_, &counts_, heap, r, all, asks};
        block* const b = arbiter_.acquire(found, who, held, must_wait);
        return b != nullptr ? b->pointer() : nullptr;
    }

    /// Queries all streams and coalesces free blocks of `heap`. Does nothing if the stream of `r`
    /// is being captured.
    void coalesce_all(block_heap& heap, request const& r) {
        if (arbiter::is_captured(r.on)) { return; }
        timelines().try_record_all();
        // Queries all events several times: an event just recorded on an idle stream is complete
        // only after some microseconds.
        for (int looks = 0; looks < 4; ++looks) { timelines().poll(); }
        flush_quick_lists();
        heap.coalesce_all(is_complete());
    }
    block* hand_out(request const& r, block_heap::fit const& place) noexcept {
        return handed_out(r.asked, r.alignment, heaps().of(*place.where).take(place, r.bytes));
    }
    block* handed_out(std::size_t asked, std::size_t alignment, block* b) noexcept {
        candidates::requested(asked, alignment, b);
        counts_.add(b->bytes);
        return b;
    }
    block* coalesce(block* b) noexcept { return cache_.coalesce(b, is_complete()); }

    void coalesce_pending() noexcept {
        flush_quick_lists();
        heaps().coalesce_pending(is_complete());
    }
    void flush_quick_lists() noexcept { cache_.flush(is_complete()); }
    /// Returns true if the block was allocated with this size and alignment.
    [[nodiscard]] static bool handed_out_as(block const* b, std::size_t bytes,
                                            std::size_t alignment) noexcept {
        return b != nullptr && b->bytes - b->slack == bytes &&
               std::size_t{1} << b->alignment == alignment;
    }
    /// Replaces the recorded use of a block that is being freed: the stream number `slot` may use
    /// it until the end of `epoch` (part of its work). Uses by captured graphs stay recorded.
    void hold(block* b, std::uint64_t epoch, std::size_t slot) noexcept {
        if (b->slot != block::several) { return block_tags::hold(b, {0, 0, epoch, slot}); }
        tags all = b->waits_for();
        // Cannot fail: the list has room for eight uses, and a live block has at most one, by a
        // captured graph.
        (void)all.merge(tags{{b->address, b->end(), epoch, slot}}, is_complete());
        heaps().of(*b).hold(b, all);
    }
    /// Records the present work of the stream `s` as a pending use of a freed block. `remote`:
    /// another thread queued the free, so the stream is not queried.
    freed record_free(stream s, block* b, bool remote) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) { hold(b, epoch, slot); };
        return remote ? arbiter_.record_remote_free(s, b->pointer(), b->bytes, record)
                      : arbiter_.record_free(s, b->pointer(), b->bytes, record);
    }

    block_cache<InPlace> cache_;
    arbiter              arbiter_;
    live_counts          counts_;
    /// Counts the blocks from `take_in_hole`. At `enough_holes`, that function returns null once
    /// and sets this to 0.
    unsigned holes_ = 0;
};

} // namespace detail
} // namespace vram
