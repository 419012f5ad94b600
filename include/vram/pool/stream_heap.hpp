// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_heap` gives each block to a stream that may have it: a `block_heap` with `clocks`.

#include <vram/base/error.hpp>            // report_error
#include <vram/base/memory_usage.hpp>     // memory_usage
#include <vram/concepts/refused_free.hpp> // refused_free
#include <vram/pool/availability.hpp>     // availability
#include <vram/pool/block_heaps.hpp>      // block_heaps
#include <vram/pool/block_request.hpp>    // block_request
#include <vram/pool/clocks.hpp>           // clocks
#include <vram/pool/free_pieces.hpp>      // free_pieces
#include <vram/pool/platform_lock.hpp>    // platform_lock
#include <vram/pool/pool_options.hpp>     // event_policy
#include <vram/pool/warm_blocks.hpp>      // warm_blocks

#include <atomic>  // atomic
#include <bit>     // countr_zero
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint16_t
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
///
/// `Private`: others leave blocks for the pool, and each block that is handed out notes how many
/// they had left by then.
template <class Platform, bool InPlace = false, bool Private = false>
class stream_heap {
public:
    using stream       = typename Platform::stream;
    using guard        = typename platform_lock<Platform>::guard;
    using request      = block_request<stream>;
    using chunk        = block_heap::chunk;
    using chunk_growth = block_heap::chunk_growth;

    /// `apart`: small blocks have chunks of their own. `large_limit`: bytes of the large block that
    /// rests, at most; 0: none does.
    stream_heap(event_policy events, bool graphs, bool apart = true,
                std::size_t large_limit = warm_blocks::large_limit) noexcept
        : heaps_{apart},
          clocks_{events == event_policy::lazy},
          large_limit_{large_limit},
          events_{events},
          graphs_{graphs},
          plain_{events == event_policy::lazy && !graphs} {}
    stream_heap(stream_heap&& other) noexcept : stream_heap{other.events_, other.graphs_} {
        *this = std::move(other);
    }
    stream_heap& operator=(stream_heap&& other) noexcept {
        heaps_       = std::move(other.heaps_);
        warm_        = std::move(other.warm_);
        clocks_      = std::move(other.clocks_);
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

    /// Where that number is. The pool does not move from now on.
    void count_left(std::atomic<std::uint64_t> const& left) noexcept
        requires Private
    {
        left_ = &left;
    }
    /// Whether a block was handed out after the one with that number was left.
    [[nodiscard]] static bool handed_out_since(block const& b, std::uint64_t number) noexcept {
        return Private && number < b.left;
    }

    /// A block that rests for just this request, or one that is free, costs its stream nothing and
    /// is found without a search; or null.
    [[gnu::always_inline]] block* take_quick(stream s, std::size_t asked, std::size_t alignment) {
        if (asked - 1 >= bins::largest || !valid_alignment(alignment)) { return nullptr; }
        std::size_t const bytes = align(asked, bins::granule);
        clock const&      mine  = clocks_.of(s);
        std::size_t const slot  = mine.slot();
        block*            b     = nullptr;
        if (bytes <= warm_blocks::largest) [[likely]] {
            b = warm_.take(slot, bytes, alignment);
        } else {
            b = reuse_large(slot, bytes, alignment);
        }
        if (b != nullptr) [[likely]] {
            b->now = block::state::live;
        } else {
            if (alignment > bins::granule || graphs_) { return nullptr; }
            b = heaps_.of(bytes).take_quick(bytes, slot, clocks_.for_asker(&mine, false));
            if (b == nullptr) { return nullptr; }
        }
        return handed_out(asked, alignment, b);
    }
    /// Takes a block back where that is soon done. False, with nothing done, where it is not so.
    [[nodiscard, gnu::always_inline]] bool give_quick(block* b, std::size_t bytes,
                                                      std::size_t alignment, stream s) noexcept {
        if (!handed_out_as(b, bytes, alignment) || !plain_) { return false; }
        clock* c = nullptr;
        try {
            c = clocks_.known(s);
        } catch (...) {} // `give` says what is wrong
        if (c == nullptr) { return false; }
        retract(*b);
        block_tags::hold(b, {0, 0, c->mark(), c->slot()});
        // As large as was asked, rounded: known without a look at the block, for what comes next.
        // It may be larger; a branch on that was guessed wrong a third of the time.
        std::size_t const exact = align_down(bytes + bins::granule - 1, bins::granule);
        if (exact > warm_blocks::largest) [[unlikely]] {
            rest_large(b);
        } else {
            warm_.put(b, exact, c->slot());
        }
        return true;
    }
    /// A block out of what is held, or null. `all`: look at every free block. `must_wait` (null: of
    /// no interest; else false at first): where it would take a wait, also once streams were asked,
    /// it says so, and there is none.
    void* take(request const& r, guard& held, bool all, bool* must_wait = nullptr) {
        return take_from(heaps_.of(r.bytes), r, held, all, must_wait);
    }
    /// The same, when there is none and no more memory: among those of other sizes.
    void* take_elsewhere(request const& r, guard& held) {
        return take_from(heaps_.other_than(heaps_.of(r.bytes)), r, held, true, nullptr);
    }

    /// A small block out of a free one among the large that is too small for any of those, which
    /// waits for nobody; or null. After a few of them it is null once: then small blocks should get
    /// more memory, or each would be found with much effort.
    void* take_in_hole(request const& r) {
        block_heap& heap = heaps_.other_than(heaps_.of(r.bytes));
        if (!heaps_.is_small(r.bytes)) { return nullptr; }
        if (holes_ == enough_holes) {
            holes_ = 0;
            return nullptr;
        }
        heap.reserve();
        clock* const mine  = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
        auto const   price = clocks_.for_asker(mine, false);
        auto const   place = heap.find(r.bytes, r.alignment, price, true);
        if (place.where == nullptr || place.cost != availability::ready ||
            place.where->bytes > largest_hole) {
            return nullptr;
        }
        ++holes_;
        return hand_out(r, place)->pointer();
    }

    /// Takes a block back, which `on` may still be using; null: nobody is. False, with nothing
    /// done, where there is no such block, or where it was taken with another size or alignment.
    /// `left`: another thread left it, which may be capturing its stream by now.
    [[nodiscard]] bool give(block* b, std::size_t bytes, std::size_t alignment, stream const* on,
                            bool left = false) noexcept {
        if (!handed_out_as(b, bytes, alignment)) { return false; }
        freed const how = on == nullptr ? freed::idle
                          : left        ? freed_by_another(*on, b)
                                        : freed_on(*on, b);
        if (how == freed::lost) { return true; } // it stays out
        // Who has a block again that rested has it with what was noted of it then.
        if (how == freed::idle && b->slot != block::several) { b->slot = block::nobody; }
        retract(*b);
        if (how == freed::noted && plain_) {
            rest(b);
        } else {
            join(b);
        }
        return true;
    }
    /// The block handed out at `p`, for `bytes` as its client says, or null.
    [[nodiscard, gnu::always_inline]] block* live(void const* p, std::size_t bytes) const noexcept {
        block* const b = heaps_.live(p, bytes);
        return b != nullptr && b->now == block::state::live ? b : nullptr;
    }

    /// Says what lies at the address of a free that is refused.
    [[gnu::cold]] void explain_refusal(refused_free& e) const noexcept {
        block const* const b = heaps_.around(e.what.pointer);
        if (b == nullptr) { return; }
        if (b->now != block::state::live) {
            e.found_free();
        } else {
            e.found_live(b->pointer(), b->bytes - b->slack, std::size_t{1} << b->alignment);
        }
    }

    /// Adds a chunk, which the stream `on` may use at once (null: anybody), and takes `r` out of
    /// its front; for large blocks where there is no request (null).
    void* add(void* at, std::size_t bytes, std::size_t alignment, stream const* on,
              request const* r) {
        auto const  first = reinterpret_cast<std::uintptr_t>(at);
        block_heap& heap  = heaps_.of(r != nullptr ? r->bytes : bytes);
        tags        held;
        clock*      mine = nullptr;
        heap.reserve();
        if (on != nullptr) {
            mine = &clocks_.of(*on);
            held = tags{{first, first + bytes, mine->mark(), mine->slot()}};
        }
        block* const b = heap.add(at, bytes, alignment, held);
        // For who takes the rest: should the stream be gone by then.
        if (mine != nullptr && events_ == event_policy::eager) { mine->try_record(); }
        return r != nullptr ? hand_out(*r, {b, first})->pointer() : nullptr;
    }
    /// Takes an idle chunk that nobody uses any more out of the books; one without bytes if there
    /// is none. Waits on the host for the one that is easiest to have.
    [[nodiscard]] chunk remove_idle(guard& held) {
        auto const price = clocks_.for_asker(nullptr, false);
        clocks_.look_again();
        for (;;) {
            cool();
            auto const found = heaps_.idle_chunk(price);
            if (found.heap == nullptr) { return {}; }
            tags const pending = found.what().first->waits_for();
            if (price(pending) == availability::ready) { return found.heap->remove(found.index); }
            clock const* const held_up = clocks_.finish(pending, held);
            if (held_up == nullptr) { continue; }
            if (plain_) {
                heaps_.keep_for_capture(held_up->slot(), held_up->running());
            } else {
                clocks_.pass_over(held_up->slot());
            }
        } // others went on meanwhile: look again
    }

    /// Finds the chunk that must grow least so that `r` fits at its end, and not before the address
    /// `from(last block)`. The chunk is busy until `end_growth`.
    template <class From = block_heap::front_of>
    [[nodiscard]] chunk_growth begin_growth(request const& r, From const& from = {}) {
        clock* const mine     = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
        bool const   captured = mine != nullptr && Platform::capturing(*r.on);
        return heaps_.of(r.bytes).begin_growth(r.bytes, r.alignment,
                                               clocks_.for_asker(mine, captured), from);
    }
    /// The chunk has `by` more bytes at its end, which have no physical memory yet.
    void end_growth(chunk_growth const& m, std::size_t by) noexcept { heaps_.end_growth(m, by); }

    /// As `remove_idle` without waiting: one without bytes where that is what it would take.
    [[nodiscard]] chunk remove_ready() {
        auto const price = clocks_.for_asker(nullptr, false);
        cool();
        auto const found = heaps_.idle_chunk(price);
        if (found.heap == nullptr ||
            price(found.what().first->waits_for()) != availability::ready) {
            return {};
        }
        return found.heap->remove(found.index);
    }
    /// Whether some chunk is idle, ready or not.
    [[nodiscard]] bool has_idle() const noexcept {
        bool some = false;
        heaps_.for_each_chunk([&](chunk const& c) { some = some || c.idle(); });
        return some;
    }
    /// Asks the streams how far they are.
    void ask_streams() { clocks_.poll(); }
    /// Finds out which idle chunks are ready: the streams that they wait for get an event and are
    /// asked.
    void poll_idle() {
        poll();
        heaps_.for_each_chunk([&](chunk const& c) {
            if (c.idle()) { clocks_.cover(c.first->waits_for()); }
        });
        poll();
    }

    /// Asks the streams how far they are, and joins what can be joined now.
    void poll() {
        clocks_.poll();
        tidy();
    }
    /// The same, also about what no event covers yet.
    void poll_all() {
        clocks_.cover_all();
        poll();
    }
    /// Waits on the host for everything that was freed. False: as `clocks::finish_all`.
    bool finish(guard& held) {
        bool const all = clocks_.finish_all(held);
        tidy();
        return all;
    }
    /// The same where nothing may be thrown, for whole devices where something is still out.
    void settle(guard& held) noexcept {
        if (live_ != 0) { clocks_.settle_everybody(); }
        clocks_.settle_all(held);
    }
    /// The stream is known from now on, which it may not be for the first time in a capture.
    void meet(stream s) { (void)clocks_.of(s); }
    void retire(stream s) {
        cool();
        clocks_.retire(s);
    }
    void forget_captures() noexcept {
        clocks_.forget_captures();
        heaps_.end_captures([this](std::size_t slot) { return clocks_.after_captures(slot); });
        tidy();
    }

    /// Joins what rests first, so that the figures are those of the memory. `behind(block)` is how
    /// much of that a free block has.
    template <class Behind>
    [[nodiscard]] memory_usage usage(Behind const& behind) {
        cool();
        memory_usage now{.live = live_, .peak_live = peak_live_, .allocations = allocations_};
        now.reserved = heaps_.reserved();
        now.events   = clocks_.events();
        now.waits    = clocks_.waits();
        heaps_.for_each([&](block const& b) {
            if (b.now == block::state::live) { now.requested += b.bytes - b.slack; }
            if (!is_held(b)) { return; }
            std::size_t const there = behind(b);
            if (there > now.largest_free) { now.largest_free = there; }
            std::size_t pending = 0;
            tags const  held    = b.waits_for();
            for (tag const& t : held) {
                if (!clocks_.settled(t)) { pending += t.end - t.begin; }
            }
            now.pending += pending < there ? pending : there;
        });
        return now;
    }
    /// What is free, in pieces; what rests is joined first. `behind` as in `usage`.
    template <class Behind>
    [[nodiscard]] free_pieces free_memory(Behind const& behind) {
        cool();
        free_pieces now;
        heaps_.for_each([&](block const& b) {
            if (is_held(b)) { now.add(behind(b)); }
        });
        heaps_.for_each_chunk(
            [&](chunk const& c) { now.releasable += goes_back(c) ? behind(*c.first) : 0; });
        return now;
    }
    /// The peak of live bytes starts again from here. Returns the one from before.
    std::size_t reset_peak() noexcept {
        most_live_ = most_live();
        return std::exchange(peak_live_, live_);
    }
    void raise_peak(std::size_t to) noexcept { peak_live_ = to > peak_live_ ? to : peak_live_; }

    [[nodiscard]] block_heaps<InPlace> const& blocks() const noexcept { return heaps_; }
    [[nodiscard]] std::size_t                 live_bytes() const noexcept { return live_; }
    /// Blocks that are live, with their bytes. Cost: a walk over all blocks.
    [[nodiscard]] error leak() const noexcept {
        error e{.kind = error_kind::leak, .bytes = live_};
        heaps_.for_each([&](block const& b) {
            if (b.now != block::state::live) { return; }
            if (e.blocks++ == 0) { e.pointer = b.pointer(); }
        });
        return e;
    }
    /// The peak of all time.
    [[nodiscard]] std::size_t most_live() const noexcept {
        return peak_live_ > most_live_ ? peak_live_ : most_live_;
    }

protected:
    using clock = typename clocks<Platform>::clock;

    // Larger holes are more often joined to something that a large block fits in. (Of the recorded
    // traces two become tighter up to here, and one less tight from 15/16 of `small_size` on.)
    static constexpr std::size_t largest_hole = block_heaps<InPlace>::small_size / 8 * 7;
    static constexpr unsigned    enough_holes = 16;

    /// For who has not been told where that is: see `count_left`.
    static constexpr std::atomic<std::uint64_t> nothing_left{0};

    [[nodiscard]] auto settled() const noexcept {
        return [this](tag const& t) { return clocks_.settled(t); };
    }
    void* take_from(block_heap& heap, request const& r, guard& held, bool all, bool* must_wait) {
        clock* const mine     = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
        bool         captured = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        if (r.bytes > warm_blocks::largest) { join_large(); }
        if (heap.was_strewn() && clocks_.several()) { put_together(heap, r); }
        heap.reserve();
        clocks_.look_again();
        bool asked = mine == nullptr || captured || r.bytes <= free_blocks::worth_asking;
        for (;;) {
            auto const price = clocks_.for_asker(mine, captured);
            auto const place = heap.find(r.bytes, r.alignment, price, all);
            if (place.tighter != nullptr && !asked) {
                asked = true; // a larger block is cut only where the tighter one is in use
                if (ask_about(*place.tighter, *r.on)) { continue; }
            }
            if (place.where != nullptr && place.cost == availability::ready) {
                return (captured ? hand_out_kept(r, place) : hand_out(r, place))->pointer();
            }
            if (cool_for(r)) {  // what rests may do, alone or joined to something
                heap.reserve(); // which may have used up notes
                continue;
            }
            if (place.where == nullptr) { return nullptr; }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                captured = true; // it can wait for nobody now
                continue;
            }
            if (must_wait != nullptr) {
                if (!std::exchange(*must_wait, true) && ask_about(*place.where, *r.on)) {
                    continue;
                }
                if (!found_captured(r, place)) { return nullptr; }
                *must_wait = false; // there is no waiting for that; the next is asked again
                continue;
            }
            if (block* const b = ordered(r, place, mine, held)) { return b->pointer(); }
            heap.reserve(); // while the lock was open others went on
        }
    }

    /// Whether a block is neither out nor on its way there.
    [[nodiscard]] static bool is_held(block const& b) noexcept {
        return b.now != block::state::live && b.now != block::state::coming;
    }
    /// Whether a chunk is idle, and no graph keeps any of it.
    [[nodiscard]] static bool goes_back(chunk const& c) noexcept {
        return c.idle() && c.first->waits_for().kept().empty();
    }
    /// Joins what is free in a heap, and forgets whom it waited for, as far as streams are done.
    void put_together(block_heap& heap, request const& r) {
        if (r.on != nullptr && Platform::capturing(*r.on)) { return; }
        clocks_.cover_all();
        for (int looks = 0; looks < 4; ++looks) { clocks_.poll(); } // an event takes microseconds
        cool();
        heap.put_together(settled());
    }
    /// Asks the streams that a block waits for whether they are done, if `s` may ask. Whether it
    /// did.
    bool ask_about(block const& b, stream s) {
        if (Platform::capturing(s)) { return false; }
        clocks_.ask(b.waits_for());
        return true;
    }

    /// Hands out a place that must be waited for. Null: it is in use by a stream that is being
    /// captured. Where captures are looked for, it was given back before this one, and can be had
    /// when that is over; else it may be the graph's, and is kept from now on.
    block* ordered(request const& r, block_heap::fit const& place, clock* mine, guard& held) {
        block* const b = ordered_uncounted(r, place, mine, held);
        return b != nullptr ? counted(b) : nullptr;
    }
    /// The same, of which the figures know nothing yet: the wait may fail, and others go on
    /// meanwhile.
    block* ordered_uncounted(request const& r, block_heap::fit const& place, clock* mine,
                             guard& held) {
        tags const   part = place.where->waits_for().within(place.start, place.start + r.bytes);
        block*       b    = place.where;
        clock const* held_up; // a stream that is being captured
        if (mine != nullptr) {
            held_up = clocks_.order(*mine, part);
            if (held_up == nullptr) { return hand_out_uncounted(r, place); }
        } else {
            bool const bare  = place.where->bare;
            b                = hand_out_uncounted(r, place); // ours while the lock is open
            block_heap& heap = heaps_.of(*b);
            heap.hold(b, part); // noted now: meanwhile others may use up what was reserved
            try { // and more may be noted with it: memory of its pages that a stream still uses
                do {
                    tags const now = b->waits_for();
                    held_up        = clocks_.finish(now, held);
                } while (held_up == nullptr &&
                         clocks_.for_asker(nullptr, false)(b->waits_for()) != availability::ready);
            } catch (...) {
                b->bare = bare;
                join(b);
                throw;
            }
            if (held_up == nullptr) {
                heap.hold(b, tags{});
                return b;
            }
            b->bare = bare;
            b       = join(b);
        }
        set_aside(b, *held_up);
        return nullptr;
    }
    /// Whether a place waits for a stream that is being captured; then it is not to be had.
    bool found_captured(request const& r, block_heap::fit const& place) {
        auto const part = place.where->waits_for().within(place.start, place.start + r.bytes);
        clock const* const captured = clocks_.in_capture(part);
        if (captured != nullptr) { set_aside(place.where, *captured); }
        return captured != nullptr;
    }
    /// See `ordered`.
    void set_aside(block* b, clock const& captured) noexcept {
        if (plain_) {
            block_tags::keep_for_capture(b, captured.slot(), captured.running());
        } else {
            clocks_.pass_over(captured.slot());
        }
    }
    /// A block that is as good as handed out, of which neither the figures nor who looks for it
    /// know yet.
    block* hand_out_uncounted(request const& r, block_heap::fit const& place) noexcept {
        std::size_t const peak = peak_live_;
        block* const      b    = hand_out(r, place);
        b->now                 = block::state::coming;
        retract(*b);
        --allocations_;
        peak_live_ = peak;
        return b;
    }
    block* counted(block* b) noexcept {
        b->now = block::state::live;
        note_left(b);
        ++allocations_;
        live_ += b->bytes;
        raise_peak(live_);
        return b;
    }

    block* hand_out(request const& r, block_heap::fit const& place) noexcept {
        return handed_out(r.asked, r.alignment, heaps_.of(*place.where).take(place, r.bytes));
    }
    /// The same for a stream that is being captured: what earlier graphs keep of the place they do,
    /// also when the block comes back outside of a capture.
    block* hand_out_kept(request const& r, block_heap::fit const& place) noexcept {
        tags const   before = place.where->waits_for().within(place.start, place.start + r.bytes);
        block* const b      = hand_out(r, place);
        heaps_.of(*b).keep(b, before.kept());
        return b;
    }
    block* handed_out(std::size_t asked, std::size_t alignment, block* b) noexcept {
        b->slack     = static_cast<std::uint16_t>(b->bytes - asked);
        b->alignment = std::countr_zero(alignment) & 63;
        note_left(b);
        ++allocations_;
        live_ += b->bytes;
        if (live_ > peak_live_) { peak_live_ = live_; }
        return b;
    }
    void note_left([[maybe_unused]] block* b) const noexcept {
        if constexpr (Private) { b->left = left_->load(std::memory_order_relaxed); }
    }
    void retract(block const& b) noexcept { live_ -= b.bytes; }
    /// Bytes that nobody has, and nobody can have.
    void keep_out(std::size_t bytes) noexcept {
        live_ += bytes;
        raise_peak(live_);
    }
    /// A block that its stream has given back, and nothing more is to be done for: it rests, or is
    /// joined.
    void rest(block* b) noexcept {
        if (b->bytes <= warm_blocks::largest) { return warm_.put(b, b->bytes, b->slot); }
        rest_large(b);
    }
    /// The same for a large block. It does not come to rest where a chunk ends that grows there:
    /// what is used should end as low as it can. Nor where it is the last one out, so that a
    /// program which does the same again finds the same places.
    [[gnu::always_inline]] void rest_large(block* b) noexcept {
        if (live_ == 0 || heaps_.of(*b).live_blocks() <= (warm_.has_large() ? 2U : 1U)) {
            join_large();
        } else if (b->bytes <= large_limit_ && !(InPlace && is_before_tail(*b))) {
            b = warm_.put_large(b);
            if (b == nullptr) { return; }
        }
        join(b);
    }
    /// Where chunks grow each ends with a free block, of no bytes if need be: whether that is next.
    [[nodiscard]] static bool is_before_tail(block const& b) noexcept {
        return b.after->after == nullptr;
    }
    /// The large block that rests, where it is just what is asked. Else it is joined: what is asked
    /// may be free there then.
    [[gnu::always_inline]] block* reuse_large(std::size_t slot, std::size_t bytes,
                                              std::size_t alignment) noexcept {
        block* const b = warm_.take_large();
        if (b == nullptr) { return nullptr; }
        if (b->bytes == bytes && warm_blocks::usable(*b, slot, alignment)) { return b; }
        join(b);
        return nullptr;
    }
    /// Whether there was one.
    bool join_large() noexcept {
        block* const b = warm_.take_large();
        if (b != nullptr) { join(b); }
        return b != nullptr;
    }
    /// Gives a block to the heap, which is not out any more.
    [[gnu::noinline]] block* join(block* b) noexcept { return heaps_.of(*b).give(b, settled()); }

    void tidy() noexcept {
        cool();
        heaps_.tidy(settled());
    }
    /// Gives what rests to the heap. Whether there was anything.
    bool cool() noexcept {
        bool const large = join_large();
        return warm_.drain(bins::granule, [&](block* b) { join(b); }) || large;
    }
    /// The same for a request. For a small one the small blocks go on resting where others do: they
    /// are many, hold little, and would only be cut again. Not where chunks grow at their ends,
    /// which should stay as low as they can.
    bool cool_for(request const& r) noexcept {
        bool const few = !InPlace && r.bytes <= warm_blocks::largest;
        return (few && warm_.drain(warm_blocks::bulky, [&](block* b) { join(b); })) || cool();
    }
    /// Whether a block is out, for these bytes at that alignment.
    [[nodiscard]] static bool handed_out_as(block const* b, std::size_t bytes,
                                            std::size_t alignment) noexcept {
        return b != nullptr && b->bytes - b->slack == bytes &&
               std::size_t{1} << b->alignment == alignment;
    }
    /// The stream in `slot` holds a block that comes back; so do graphs that kept it meanwhile.
    void hold(block* b, std::uint64_t epoch, std::size_t slot) noexcept {
        if (b->slot != block::several) { return block_tags::hold(b, {0, 0, epoch, slot}); }
        tags all = b->waits_for();
        (void)all.merge(tags{{b->address, b->end(), epoch, slot}}, settled()); // two have room
        heaps_.of(*b).hold(b, all);
    }
    /// What is known of a block that comes back.
    enum class freed {
        noted, ///< who holds it
        idle,  ///< that nobody does
        lost,  ///< nothing, and nobody could be waited for: it must not be handed out again
    };
    /// Notes who holds a block that is freed on `s`. Where that cannot be noted, it is waited for.
    freed freed_on(stream s, block* b) noexcept {
        try {
            clock& c = clocks_.of(s);
            if (!plain_ && Platform::capturing(s)) {
                hold(b, c.mark_captured(), c.slot());
                return freed::noted;
            }
            hold(b, c.mark(), c.slot());
            if (events_ == event_policy::eager) { c.try_record(); }
            return freed::noted;
        } catch (...) {
            report_error({.kind = error_kind::platform_error, .pointer = b->pointer()});
        }
        if (clocks_.settle_user(s)) { return freed::idle; }
        report_error({.kind = error_kind::leak, .pointer = b->pointer(), .bytes = b->bytes});
        return freed::lost;
    }

    /// The same for a block that another thread left; of the stream nothing is asked.
    freed freed_by_another(stream s, block* b) noexcept {
        try {
            if (clock* const c = clocks_.of_another(s)) {
                hold(b, c->mark(), c->slot());
                return freed::noted;
            }
        } catch (...) {
            report_error({.kind = error_kind::platform_error, .pointer = b->pointer()});
        }
        if (clocks_.settle_everybody()) { return freed::idle; }
        report_error({.kind = error_kind::leak, .pointer = b->pointer(), .bytes = b->bytes});
        return freed::lost;
    }

    block_heaps<InPlace> heaps_;
    warm_blocks          warm_;
    clocks<Platform>     clocks_;
    std::size_t          live_      = 0;
    std::size_t          peak_live_ = 0;
    std::size_t          most_live_ = 0; ///< before the peak started again
    std::size_t          large_limit_;   ///< of the large block that rests
    unsigned             holes_ = 0;     ///< small blocks in such since there was no more
    event_policy         events_;
    bool                 graphs_;
    bool                 plain_; ///< who frees something has nothing to do but to remember it
    std::uint64_t        allocations_ = 0; // not beside `live_`: that would be stored alone and
                                           // loaded with this as a pair, which stalls
    std::atomic<std::uint64_t> const* left_ = &nothing_left; ///< of a private pool
};

} // namespace vram
