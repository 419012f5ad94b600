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

    /// `apart`: small blocks have separate chunks. `large_limit`: size up to which one large block,
    /// the last one freed, is cached; 0: none.
    stream_heap(event_policy events, bool graphs, bool apart = true,
                std::size_t large_limit = quick_lists::large_limit) noexcept
        : cache_{apart, large_limit}, arbiter_{events, graphs} {}

    /// Fast path: returns a cached or free block that needs no wait and no search. Returns null if
    /// `take` must search.
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
    /// Fast path of a free on the stream `s`. Returns false and changes nothing if `give` must
    /// handle the free.
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
        // The size is computed from the request, because a load of `b->bytes`, which may be larger,
        // would delay the next allocation.
        std::size_t const exact = align_down(bytes + bins::granule - 1, bins::granule);
        cache_.put(b, exact, c->slot(), counts_, is_complete());
        return true;
    }
    /// Allocates from the reserved memory, if necessary after a wait, or returns null. `all`:
    /// searches every block. `must_wait`, if not null, is set to true instead of a wait.
    void* take(request const& r, guard& held, bool all, bool* must_wait = nullptr) {
        return take_from(heaps().of(r.bytes), r, held, all, must_wait);
    }
    /// Allocates a small block from the heap for large blocks, or a large one from the heap for
    /// small blocks. Returns null if none fits.
    void* take_elsewhere(request const& r, guard& held) {
        return take_from(heaps().other_than(heaps().of(r.bytes)), r, held, true, nullptr);
    }

    /// Allocates a small block in a free block between large ones, without a wait. Returns null if
    /// none fits, or once after 16 allocated blocks.
    void* take_in_hole(request const& r) {
        block_heap& heap = heaps().other_than(heaps().of(r.bytes));
        if (!heaps().is_small(r.bytes)) { return nullptr; }
        // Null makes the heap for small blocks grow: later requests then need no such search.
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

    /// Frees a block that the stream `on` (null: none) may still use. Returns false, and changes
    /// nothing, for an invalid free. `remote`: another thread queued the free.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment, stream const* on,
                            bool remote = false) noexcept {
        if (!handed_out_as(b, bytes, alignment)) { return false; }
        freed const how = on == nullptr ? freed::idle : record_free(*on, b, remote);
        // The use could not be recorded, so the block stays live.
        if (how == freed::lost) { return true; }
        // No stream uses the block now: removes the use recorded by an earlier free. Parts kept for
        // graphs (`several`: in a list) stay.
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

    /// Adds to the error of a rejected free the kind of memory at its address, if that is in a
    /// chunk.
    [[gnu::cold]] void explain_refusal(refused_free& e) const noexcept {
        survey().explain_refusal(e);
    }

    /// Adds a chunk that only the stream `on` (null: any) may use without a wait, and allocates `r`
    /// (if not null) from that chunk.
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
        // Other streams wait for `on` by an event. With `event_policy::eager` it is recorded now,
        // because `on` may be destroyed before.
        if (mine != nullptr) { arbiter_.record_if_eager(*mine); }
        return r != nullptr ? hand_out(*r, {b, first})->pointer() : nullptr;
    }
    /// Removes and returns a chunk without a live block, perhaps after a wait of the host. Returns
    /// no bytes if none is available.
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

    /// Finds the chunk that must grow least to fit `r` at its end (null `base`: none).
    /// `from(block)`: lowest address. Other threads cannot grow it until `end_growth`.
    template <class From = block_heap::front_of>
    [[nodiscard]] chunk_extension begin_growth(request const& r, From const& from = {}) {
        timeline* const mine  = r.on != nullptr ? &timelines().of(*r.on) : nullptr;
        auto const      price = timelines().for_asker(mine, arbiter::is_captured(r.on));
        return heaps().of(r.bytes).begin_growth(r.bytes, r.alignment, price, from);
    }
    /// Ends a growth: the chunk has `by` (0: growth failed) more bytes of addresses at its end, to
    /// which no physical memory is mapped yet.
    void end_growth(chunk_extension const& m, std::size_t by) noexcept {
        heaps().end_growth(m, by);
    }

    /// Removes and returns a chunk that no stream uses, or a chunk without bytes. Never waits.
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
    /// Records and queries events for the frees in chunks without a live block, to find chunks that
    /// no stream uses.
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
    /// Records events behind frees that have none, and queries them. Coalesces the blocks that
    /// streams no longer use.
    void poll_all() {
        timelines().try_record_all();
        poll();
    }
    /// Makes the host wait for all uses of freed memory, then coalesces. Returns false if a stream
    /// is being captured.
    bool finish(guard& held) {
        bool const all = timelines().finish_all(held);
        coalesce_pending();
        return all;
    }
    /// Waits for all streams without throwing; also for whole devices if a block is still live.
    void wait_for_all(guard& held) noexcept {
        if (live_bytes() != 0) { timelines().wait_for_all_devices(); }
        timelines().wait_for_all(held);
    }
    /// Creates the record of a stream, which may query the stream's id. CUDA forbids that query
    /// during a capture.
    void register_stream(stream s) { (void)timelines().of(s); }
    void retire(stream s) {
        flush_quick_lists();
        timelines().retire(s);
    }
    void forget_captures(guard held) {
        if (timelines().finish_graphs(held) == 0) { return; }
        flush_quick_lists(); // `end_captures` requires that they are empty
        heaps().end_captures();
        coalesce_pending();
    }

    /// Returns the usage; cached blocks count as free. `behind(block)` returns how many bytes of a
    /// free block have physical memory.
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
    /// `reset_peak` returns the peak and sets it to the live bytes. `raise_peak` raises it to `to`.
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

    // Largest free block in which small blocks are placed. Larger ones are more often coalesced
    // into blocks for large requests.
    static constexpr std::size_t largest_hole = block_heaps<InPlace>::small_size / 8 * 7;
    static constexpr unsigned    enough_holes = 16;

    // The function captures the pointer `this`: the fast path of a free has it in a register.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines().is_complete(t); };
    }
    void* take_from(block_heap& heap, request const& r, guard& held, bool all, bool* must_wait) {
        auto const who = arbiter_.asker_for(r.on);
        if (r.bytes > quick_lists::largest) { cache_.flush_large(is_complete()); }
        if (heap.was_all_freed() && timelines().several()) { coalesce_all(heap, r); }
        // For a large request, streams are queried: a block that fits better may be unused by now.
        bool const asks =
            who.mine != nullptr && !who.captured && r.bytes > free_blocks::worth_asking;
        candidates   found{cache_, arbiter_, &counts_, heap, r, all, asks};
        block* const b = arbiter_.acquire(found, who, held, must_wait);
        return b != nullptr ? b->pointer() : nullptr;
    }

    /// Queries all streams and coalesces all free blocks of `heap`. Does nothing if the stream of
    /// `r` is being captured.
    void coalesce_all(block_heap& heap, request const& r) {
        if (arbiter::is_captured(r.on)) { return; }
        timelines().try_record_all();
        // An event needs some microseconds even on an idle stream, so it is queried several times.
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
    /// Replaces the recorded use of a block being freed: the stream `slot` may use the block until
    /// `epoch`. Parts kept for graphs stay recorded.
    void hold(block* b, std::uint64_t epoch, std::size_t slot) noexcept {
        if (b->slot != block::several) { return block_tags::hold(b, {0, 0, epoch, slot}); }
        tags all = b->waits_for();
        // Cannot fail: a live block has one use at most, by a graph, and `tags` has room for eight.
        (void)all.merge(tags{{b->address, b->end(), epoch, slot}}, is_complete());
        heaps().of(*b).hold(b, all);
    }
    /// Records the present work of the stream `s` as the last use of a block. `remote`: another
    /// thread queued the free.
    freed record_free(stream s, block* b, bool remote) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) { hold(b, epoch, slot); };
        return remote ? arbiter_.record_remote_free(s, b->pointer(), b->bytes, record)
                      : arbiter_.record_free(s, b->pointer(), b->bytes, record);
    }

    block_cache<InPlace> cache_;
    arbiter              arbiter_;
    live_counts          counts_;
    /// Blocks that `take_in_hole` allocated since it last returned null because of `enough_holes`.
    unsigned holes_ = 0;
};

} // namespace detail
} // namespace vram
