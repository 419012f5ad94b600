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

/// The reserved memory of a pool, its cached blocks (free blocks in lists by size), and the
/// timelines (records of progress) of its streams. Does not call the upstream. Functions with a
/// `guard` parameter release the lock while the host waits.
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

    /// `apart`: true if small blocks come from chunks of their own. `large_limit`: largest size in
    /// bytes of a large block that is cached after its free. 0: no large block is cached.
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
    /// Fast path of a free on the stream `s`. Returns true if the block was freed and cached.
    /// Returns false if nothing was changed: the caller must then call `give`.
    [[nodiscard, gnu::always_inline]] bool give_quick(block* b, std::size_t bytes,
                                                      std::size_t alignment, stream s) noexcept {
        if (!handed_out_as(b, bytes, alignment) || !quick_frees_) { return false; }
        timeline* c = nullptr;
        try {
            c = timelines().known(s);
        } catch (...) {} // `give` makes the call again and reports the error
        if (c == nullptr) { return false; }
        counts_.retract(b->bytes);
        block_tags::hold(b, {0, 0, c->epoch_of_free(), c->slot()});
        // The requested size selects the list of cached blocks. The size of the block, `b->bytes`,
        // may be larger, but reading it would delay the next allocation.
        std::size_t const exact = align_down(bytes + bins::granule - 1, bins::granule);
        cache_.put(b, exact, c->slot(), counts_, is_complete());
        return true;
    }
    /// Allocates from the reserved memory. If `must_wait` is null, waits if needed. Otherwise never
    /// waits, and sets `*must_wait` to true if a wait would help. `all`: examines every free block.
    /// Returns null if no block was allocated.
    void* take(request const& r, guard& held, bool all, bool* must_wait = nullptr) {
        return take_from(heaps().of(r.bytes), r, held, all, must_wait);
    }
    /// Allocates a small block from the heap for large blocks, or a large block from the heap for
    /// small blocks. Waits if necessary. Returns null if no block fits.
    void* take_elsewhere(request const& r, guard& held) {
        return take_from(heaps().other_than(heaps().of(r.bytes)), r, held, true, nullptr);
    }

    /// Allocates a small block from the heap for large blocks, or returns null. Never waits.
    /// Returns null after every 16 such blocks, so that the heap for small blocks can grow.
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
    /// changes nothing, if the free is invalid. `remote`: another thread has queued the free.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment, stream const* on,
                            bool remote = false) noexcept {
        if (!handed_out_as(b, bytes, alignment)) { return false; }
        freed const how = on == nullptr ? freed::idle : record_free(*on, b, remote);
        // The block stays live, because `on` can neither be recorded as a user of the block nor
        // waited for. The result is true, because the free is valid.
        if (how == freed::lost) { return true; }
        // If no stream uses the block, forgets an earlier user. Keeps a list of users (`several`),
        // because it contains captured graphs.
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

    /// Adds a chunk that only the stream `on` (null: every stream) may use without a wait. If `r`
    /// is not null, allocates `*r` in this chunk and returns its address. Otherwise returns null.
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
        // With `event_policy::eager`, an event is recorded now. Other streams can wait for it
        // before they use the chunk, even if `on` was destroyed meanwhile.
        if (mine != nullptr) { arbiter_.record_if_eager(*mine); }
        return r != nullptr ? hand_out(*r, {b, first})->pointer() : nullptr;
    }
    /// Removes and returns a chunk without a live block. If streams may still use all such chunks,
    /// the host waits first. If no chunk can be removed, returns a chunk of 0 bytes.
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

    /// Selects the chunk that needs the fewest additional bytes for the request `r`, and reserves
    /// it until `end_growth`. If no chunk can grow, `base` of the result is null. `from(b)` returns
    /// the first address permitted for `r` if `b` is the last block of a chunk.
    template <class From = block_heap::front_of>
    [[nodiscard]] chunk_extension begin_growth(request const& r, From const& from = {}) {
        timeline* const mine  = r.on != nullptr ? &timelines().of(*r.on) : nullptr;
        auto const      price = timelines().for_asker(mine, arbiter::is_captured(r.on));
        return heaps().of(r.bytes).begin_growth(r.bytes, r.alignment, price, from);
    }
    /// Ends the growth `m` that `begin_growth` began. `by`: number of bytes by which the end of the
    /// chunk moved, or 0 if the growth failed. These bytes have no physical memory yet.
    void end_growth(chunk_extension const& m, std::size_t by) noexcept {
        heaps().end_growth(m, by);
    }

    /// Removes and returns a chunk that has no live block and that no stream uses. Never waits.
    /// Returns a chunk of 0 bytes if there is none.
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
    /// Queries the events of all streams, so that `remove_ready` finds chunks that no stream uses.
    /// If a stream may still use a chunk without a live block, tries to record an event on that
    /// stream, and queries again.
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
    /// Coalesces (merges) the free blocks that streams no longer use. If there are several streams,
    /// first tries to record an event on each stream that has freed memory since its last event:
    /// only events show that a stream is done.
    void poll_all() {
        timelines().try_record_all();
        poll();
    }
    /// Makes the host wait once for each stream that may use freed memory, then merges adjacent
    /// free blocks where possible. Memory kept for captured graphs stays unavailable. Returns false
    /// if a capture prevented a wait.
    bool finish(guard& held) {
        bool const all = timelines().finish_all(held);
        coalesce_pending();
        return all;
    }
    /// Makes the host wait until no stream uses freed memory. If a block is still live, its users
    /// are unknown, so the host first waits for whole devices. Never throws.
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
        flush_quick_lists(); // `end_captures` requires that no block is cached
        heaps().end_captures();
        quick_frees_ = arbiter_.plain();
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

    // Largest size in bytes of a free block that `take_in_hole` divides for small blocks. This
    // function does not divide larger free blocks, which large requests may need.
    static constexpr std::size_t largest_hole = block_heaps<InPlace>::small_size / 8 * 7;
    static constexpr unsigned    enough_holes = 16;

    // Returns a function that takes a `tag` (a stream's pending use of freed memory) and returns
    // true if that use is complete.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines().is_complete(t); };
    }
    void* take_from(block_heap& heap, request const& r, guard& held, bool all, bool* must_wait) {
        auto const who = arbiter_.asker_for(r.on);
        if (r.bytes > quick_lists::largest) { cache_.flush_large(is_complete()); }
        if (heap.was_all_freed() && timelines().several()) { coalesce_all(heap, r); }
        // A stream's request for a large block may query events once. A block that fits better than
        // the found one may then be available.
        bool const asks =
            who.mine != nullptr && !who.captured && r.bytes > free_blocks::worth_asking;
        candidates   found{cache_, arbiter_, &counts_, heap, r, all, asks};
        block* const b = arbiter_.acquire(found, who, held, must_wait);
        if (b != nullptr && b->slot == block::several) { quick_frees_ = false; }
        return b != nullptr ? b->pointer() : nullptr;
    }

    /// Queries all streams and coalesces free blocks of `heap`. Does nothing if the stream of `r`
    /// is being captured.
    void coalesce_all(block_heap& heap, request const& r) {
        if (arbiter::is_captured(r.on)) { return; }
        timelines().try_record_all();
        // Queries the events of all streams four times: an event just recorded on an idle stream is
        // complete only after some microseconds.
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
    /// Records that the stream with the index `slot` may use the freed block `b` until `epoch` (a
    /// part of its work) is complete. Forgets earlier users of the block, except captured graphs.
    void hold(block* b, std::uint64_t epoch, std::size_t slot) noexcept {
        if (b->slot != block::several) { return block_tags::hold(b, {0, 0, epoch, slot}); }
        tags all = b->waits_for();
        // Cannot fail: `all` has room for eight uses, and contains at most one (a captured graph).
        (void)all.merge(tags{{b->address, b->end(), epoch, slot}}, is_complete());
        heaps().of(*b).hold(b, all);
    }
    /// Records that the work enqueued on the stream `s` so far may still use the freed block `b`.
    /// `remote`: the free was queued by another thread, which may be capturing `s`.
    freed record_free(stream s, block* b, bool remote) noexcept {
        auto const record = [&](std::size_t slot, std::uint64_t epoch) { hold(b, epoch, slot); };
        return remote ? arbiter_.record_remote_free(s, b->pointer(), b->bytes, record)
                      : arbiter_.record_free(s, b->pointer(), b->bytes, record);
    }

    block_cache<InPlace> cache_;
    arbiter              arbiter_;
    live_counts          counts_;
    /// Number of blocks that `take_in_hole` has allocated since it last reset this number to 0.
    unsigned holes_ = 0;
    /// True if `give_quick` may free blocks. False if frees record events or query captures, or if
    /// a live block may contain memory that is kept for captured graphs.
    bool quick_frees_ = arbiter_.plain();
};

} // namespace detail
} // namespace vram
