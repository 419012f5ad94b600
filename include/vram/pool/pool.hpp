// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool` takes big chunks and hands out small blocks, each to whichever stream may have it.

#include <vram/base/align.hpp>            // align, saturating_add
#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/base/out_of_memory.hpp>    // out_of_memory
#include <vram/concepts/expandable.hpp>   // expandable_resource
#include <vram/layer/with.hpp>            // with::word
#include <vram/pool/default_growth.hpp>   // default_growth
#include <vram/pool/free_pieces.hpp>      // free_pieces
#include <vram/pool/growing_base.hpp>     // growing_base
#include <vram/pool/page_book.hpp>        // page_book
#include <vram/pool/pool_options.hpp>     // pool_options
#include <vram/pool/stream_heap.hpp>      // stream_heap
#include <vram/source/null_resource.hpp>  // the stand-in of the proofs below

#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <utility>  // move, exchange

namespace vram {

/// A coalescing, stream-aware suballocator over any resource.
///
///     pool<stream_ordered<cuda_resource>> memory;             // grows as it must
///     pool mr{cuda_resource{}, {.initial_size = 1_GiB}};      // a gigabyte at once
///
/// Books are kept in host memory; nothing is ever written into the memory itself. Blocks are
/// multiples of 256 bytes, found by best fit in bins, and joined with their free neighbours when
/// they come back, also across streams: a free block remembers which part of it which stream may
/// still use. Who asks first gets memory that waits for nobody, and else is made to wait for
/// exactly the streams concerned, once.
///
/// Failure   before it says no the pool gives idle chunks back, asks its upstream again, and waits
///           for what is pending; then `out_of_memory` with every number. A foreign pointer, a
///           double free and a wrong size are reported, and nothing else happens
/// Threads   any, at once; no lock is held over a call of the upstream, nor while waiting on the
///           host, but for a stream that can be given no event: it died, or the call failed
/// Streams   a block freed on a stream is that stream's again at once, and any other's after an
///           event; with `event_policy::lazy` a stream is retired before it is destroyed. Idle
///           chunks go back only when every stream is done with them
/// Cost      constant at any number of blocks; a stream that reuses its own memory makes no call of
///           the platform but for its id, no event, and no host allocation
template <synchronous_resource Upstream, growth Growth = default_growth<Upstream>>
class pool : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// A pool over an upstream that needs nothing to be made.
    explicit pool(pool_options options = {})
        requires std::default_initializable<Upstream>
        : pool{Upstream{}, options} {}

    /// Takes `options.initial_size` bytes at once; throws what the upstream throws.
    explicit pool(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream), options.max_size},
          options_{options},
          growth_{std::move(growth)},
          heap_{options.events, options.graphs, options.initial_size == 0} {
        if constexpr (paged) { pages_ = page_book{this->upstream_.page_size()}; }
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "pool: the initial size is within the maximum");
        request const all{.asked = options.initial_size};
        if (!all.possible()) { throw out_of_memory{{.asked = all.asked, .rounded = all.bytes}}; }
        grow_by<true>(all, all.bytes, nullptr);
    }
    pool(pool&&) = default; ///< while unshared; memory that is out stays where it is
    pool& operator=(pool&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        options_ = other.options_;
        growth_  = std::move(other.growth_);
        heap_    = std::move(other.heap_);
        pages_   = std::move(other.pages_);
        most_    = std::exchange(other.most_, 0);
        return *this;
    }
    /// Waits for the streams, reports what is still out, and gives every chunk back.
    ~pool() { give_everything_back(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment, .on = &s});
    }
    /// Memory that anybody may use at once: where it is still in use, the host waits.
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment});
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(
            bytes, [&] { return get<false>({.asked = bytes, .alignment = alignment, .on = &s}); });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(bytes,
                             [&] { return get<false>({.asked = bytes, .alignment = alignment}); });
    }

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        put(p, bytes, alignment, &s);
    }
    /// The memory is in use by nobody.
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        put(p, bytes, alignment, nullptr);
    }

    /// As `deallocate`, but where no block is out at `p` nothing is reported: the answer is false.
    [[nodiscard]] bool try_deallocate(stream s, void* p, std::size_t bytes,
                                      std::size_t alignment = default_alignment) noexcept {
        return try_put(p, bytes, alignment, &s);
    }
    [[nodiscard]] bool try_deallocate_sync(void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment) noexcept {
        return try_put(p, bytes, alignment, nullptr);
    }

    /// Whether `p` lies in one of the chunks, handed out or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return heap_.blocks().owns(p);
    }
    /// `pending` counts free bytes that some stream may still use. Cost: a walk over all blocks.
    [[nodiscard]] memory_usage usage() const {
        auto const   held = this->lock_.hold();
        memory_usage now  = heap_.usage();
        now.reserved      = this->figures_.reserved;
        now.peak_reserved = this->figures_.peak_reserved;
        now.upstream      = this->figures_.upstream;
        return now;
    }
    /// What is free, piece by piece. Cost: a walk over all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return heap_.free_memory();
    }
    /// Peaks start again from what is out and held now. Returns the figures from before.
    memory_usage reset_peaks() noexcept {
        auto const   held   = this->lock_.hold();
        memory_usage before = this->figures_;
        before.peak_live    = heap_.reset_peak();
        this->figures_.peak_reserved = this->figures_.reserved;
        return before;
    }
    /// Takes in the peaks of figures from before.
    void raise_peaks(memory_usage const& before) noexcept {
        base::raise_peaks(before);
        auto const held = this->lock_.hold();
        heap_.raise_peak(before.peak_live);
    }

    /// Gives idle chunks back until at most `keep` free bytes are held, waiting on the host for
    /// streams that may still use them, and trims the upstream. Where chunks grow in place, their
    /// free ends go back as well. Returns the bytes that went back.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        {
            auto held = this->lock_.hold();
            heap_.poll();
            while (unused() > keep && give_idle_back(held, back)) {}
            if constexpr (paged) {
                back += drop_pages(keep, held);
            } else if constexpr (in_place) {
                back += shrink_ends(keep, held);
            }
        }
        return this->trim_beneath(back);
    }
    /// Gives back the idle chunks that nobody uses any more, and waits for none; what streams are
    /// not done with is covered by an event, for the next time. Returns the bytes that went back.
    std::size_t trim_ready() {
        std::size_t back = 0;
        auto        held = this->lock_.hold();
        heap_.poll_idle();
        while (give_chunk_back(heap_.remove_ready(), held, back)) {}
        return back;
    }
    /// The stream is about to be destroyed. Does not wait for it.
    void retire(stream s) {
        {
            auto const held = this->lock_.hold();
            heap_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// No captured graph that used this pool will run again: what was kept for them is free.
    void forget_captures() {
        auto const held = this->lock_.hold();
        heap_.forget_captures();
    }
    [[nodiscard]] pool_options const& options() const noexcept { return options_; }

private:
    static constexpr bool in_place = expandable_resource<Upstream>;
    static constexpr bool paged    = remappable_resource<Upstream>;

    using guard       = typename base::guard;
    using request     = block_request<stream>;
    using chunk       = block_heap::chunk;
    using move_of_end = block_heap::move_of_end;

    template <bool Throwing>
    void* get(request const& r) {
        expects(valid_alignment(r.alignment), "pool: the alignment is a power of two");
        if (r.asked == 0) { return nullptr; }
        if (r.possible()) {
            auto held = this->lock_.hold();
            if (void* const p = heap_.take_warm(r)) { return p; }
            if (void* const p = heap_.take(r, held, false)) { return p; }
            if (void* const p = make_room(r, held)) { return p; }
        }
        if constexpr (Throwing) {
            return must_grow(r);
        } else {
            return nullptr;
        }
    }
    void put(void* p, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        if (p == nullptr || try_put(p, bytes, alignment, on)) { return; }
        report_error({.kind = mishap::foreign_pointer, .pointer = p, .bytes = bytes});
    }
    /// False, with nothing done, where no block is out at `p`.
    bool try_put(void* p, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        auto         held = this->lock_.hold();
        block* const b    = heap_.live(p, bytes);
        if (heap_.give(b, bytes, alignment, on)) { return true; }
        held.unlock();
        if (b == nullptr) { return false; }
        report_error({.kind = mishap::wrong_size, .pointer = p, .bytes = bytes});
        return true;
    }

    /// What is tried, in this order, before the answer is no: asking the streams how far they are,
    /// growing, giving idle chunks back and growing, waiting for everything that was freed.
    void* make_room(request const& r, guard& held) {
        bool const captured = r.on != nullptr && platform::capturing(*r.on); // must not wait or ask
        if (!captured) { heap_.poll(); }
        if (void* const p = heap_.take(r, held, true)) { return p; }
        held.unlock();
        if (void* const p = enlarge(r, captured)) { return p; }
        held.lock();
        void* p = heap_.take_elsewhere(r, held);
        held.unlock();
        if (p != nullptr || captured) { return p; }
        if (trim() != 0) {
            if ((p = lengthen(r, false, false)) != nullptr) { return p; }
            if ((p = grow_by<false>(r, r.bytes, &r)) != nullptr) { return p; }
        }
        held.lock();
        heap_.finish(held);
        p = heap_.take(r, held, true);
        if (p == nullptr) { p = heap_.take_elsewhere(r, held); }
        held.unlock();
        return p;
    }
    /// Grows, by what the policy wants or by less; first where a chunk ends.
    void* enlarge(request const& r, bool captured) {
        if (void* const p = lengthen(r, captured, true)) { return p; }
        std::size_t const size = wanted(r, {.needed = r.bytes, .held = held_bytes(r)});
        if (!captured) { make_way(size); }
        return stepping_down(size, r.bytes, [&](std::size_t n) {
            return grow_by<false>(r, align(n, bins::granule), &r);
        });
    }
    /// The first of `size`, half of it, and so on down to `least` with which `attempt` succeeds.
    template <class Attempt>
    static auto stepping_down(std::size_t size, std::size_t least, Attempt const& attempt) {
        for (;; size = size / 2 > least ? size / 2 : least) {
            auto const got = attempt(size);
            if (got || size <= least) { return got; }
        }
    }

    /// The size of the next chunk: the policy's, if that is within the limit, or what is needed.
    std::size_t wanted(request const& r, growth_request wish) const {
        if constexpr (Growth::asks_device) { wish.device_free = base::device_memory(r.on).free; }
        std::size_t const size = growth_(wish);
        bool const        fits = wish.held <= options_.max_size && size <= bins::largest &&
                          size <= options_.max_size - wish.held;
        return fits && size > wish.needed ? size : wish.needed;
    }
    [[nodiscard]] std::size_t held_bytes(request const& r) const {
        auto const held = this->lock_.hold();
        return heap_.blocks().of(r.bytes).reserved();
    }
    /// Before more is held than ever, what is idle goes back: chunks of sizes that a program needed
    /// once would else pile up.
    void make_way(std::size_t size) {
        auto held = this->lock_.hold();
        while (saturating_add(this->figures_.reserved, size) > most_) {
            std::size_t back = 0;
            if (!give_idle_back(held, back)) { return; }
        }
    }
    /// Gives one idle chunk back, waiting for it on the host if need be, and adds its bytes to
    /// `back`. False: there was none.
    bool give_idle_back(guard& held, std::size_t& back) {
        return give_chunk_back(heap_.remove_idle(held), held, back);
    }
    /// Gives a chunk back that is in the books of the heap no more; false where it has no bytes.
    bool give_chunk_back(chunk const& gone, guard& held, std::size_t& back) {
        if (gone.bytes == 0) { return false; }
        std::size_t real = gone.bytes;
        if constexpr (paged) {
            real = pages_.remove(gone.base);
            this->figures_.reserved += gone.bytes - real;
        }
        back += real;
        this->give_back(gone.base, gone.bytes, gone.alignment, held);
        return true;
    }
    /// Bytes that are held and not out. The lock is held.
    [[nodiscard]] std::size_t unused() const noexcept {
        return this->figures_.reserved - heap_.live_bytes();
    }

    /// Takes a chunk of `size` from the upstream and `out` (null: nothing) out of it; null when it
    /// refuses, or, where `Throwing`, only when the limit does.
    template <bool Throwing>
    void* grow_by(request const& r, std::size_t size, request const* out) {
        if constexpr (in_place) { size = whole_pages(size); }
        std::size_t const   alignment = r.chunk_alignment();
        stream const* const order     = base::order_of(r.on);
        return this->template grow<Throwing>(size, alignment, order, [&](void* at) {
            if constexpr (paged) { pages_.add(at, size); }
            try {
                void* const p = heap_.add(at, size, alignment, order, out);
                raise_most(this->figures_.reserved + size);
                return p;
            } catch (...) {
                if constexpr (paged) { pages_.remove(at); }
                throw;
            }
        });
    }
    void raise_most(std::size_t now) noexcept { most_ = now > most_ ? now : most_; }

    /// More memory for chunks that are there, and the request out of it.
    void* lengthen(request const& r, bool captured, bool more) {
        if constexpr (paged) {
            return stitch(r, captured);
        } else if constexpr (in_place) {
            return stretch(r, more);
        } else {
            return nullptr;
        }
    }
    /// Moves the end of a chunk out, by what the policy wants (`more`) or what is needed, and takes
    /// the request there; null where there is no such chunk, or no memory.
    void* stretch(request const& r, bool more)
        requires in_place
    {
        auto              held = this->lock_.hold();
        move_of_end const m    = heap_.begin_growth(r);
        if (m.base == nullptr) { return nullptr; }
        growth_request const wish{.needed = m.by, .held = heap_.blocks().of(r.bytes).reserved()};
        held.unlock();
        std::size_t by = 0;
        try {
            by = stepping_down(more ? wanted(r, wish) : m.by, m.by,
                               [&](std::size_t n) { return extend(m, n); });
        } catch (...) {
            held.lock();
            heap_.end_move(m, 0);
            throw;
        }
        held.lock();
        heap_.end_move(m, by);
        return by == 0 ? nullptr : heap_.take(r, held, true);
    }
    [[nodiscard]] std::size_t whole_pages(std::size_t bytes) const noexcept
        requires in_place
    {
        std::size_t const page  = this->upstream_.page_size();
        std::size_t const pages = bytes / page + (bytes % page != 0 ? 1 : 0);
        return pages > unsatisfiable / page ? unsatisfiable : pages * page;
    }
    /// By how much the end was moved out, if it was.
    std::size_t extend(move_of_end const& m, std::size_t by)
        requires in_place
    {
        by = whole_pages(by);
        typename base::claim mine{*this, by};
        if (!mine.granted || !this->upstream_.extend(m.base, m.bytes, by)) { return 0; }
        auto const held = this->lock_.hold();
        ++this->figures_.upstream;
        mine.keep();
        raise_most(this->figures_.reserved);
        return by;
    }
    /// Gives the free ends of chunks back until at most `keep` free bytes are held.
    std::size_t shrink_ends(std::size_t keep, guard& held)
        requires in_place
    {
        std::size_t back = 0;
        while (unused() > keep) {
            if (back == 0) { heap_.finish(held); }
            std::size_t const excess = unused() - keep;
            move_of_end const m      = heap_.begin_shrinking(this->upstream_.page_size(), excess);
            if (m.base == nullptr) { break; }
            this->figures_.reserved -= m.by;
            ++this->figures_.upstream;
            held.unlock();
            back += this->upstream_.shrink(m.base, m.bytes, m.by);
            held.lock();
            heap_.end_move(m, 0);
        }
        return back;
    }

    /// Puts memory under a free block that has too little: with `remap` what other free blocks
    /// have and nobody uses, and then more from the device. Null where no block is large enough, or
    /// there is no memory, or somebody else is at it.
    void* stitch(request const& r, bool captured)
        requires paged
    {
        auto held = this->lock_.hold();
        if (stitching_) { return nullptr; }
        bool const move = options_.remap && !captured;
        tags         before;
        block* const b = bare_block(r, held, before);
        if (b == nullptr || stitching_) {
            if (b != nullptr) { heap_.give_bare(b, before); }
            return nullptr;
        }
        stitching_ = true;
        auto const target = [&] { return pages_.touched(b->address, b->end()); };
        if (move) { move_pages(r, target, held); }
        bool const filled = fill(target(), held);
        stitching_        = false;
        if (!filled) {
            heap_.give_bare(b, before);
            return nullptr;
        }
        b->bare = false;
        for (block* beside : {b->before, b->after}) {
            if (beside == nullptr || !beside->bare || beside->bytes == 0) { continue; }
            beside->bare = pages_.missing(pages_.touched(beside->address, beside->end())) != 0;
        }
        return b->pointer();
    }
    /// A block for the request, with memory or without; where there is none, behind the end of a
    /// chunk.
    block* bare_block(request const& r, guard& held, tags& before)
        requires paged
    {
        auto const missing = [&](std::uintptr_t from, std::uintptr_t to) {
            return pages_.missing(pages_.touched(from, to));
        };
        if (block* const b = heap_.take_bare(r, held, before, missing)) { return b; }
        move_of_end const m = heap_.begin_growth(r);
        if (m.base == nullptr) { return nullptr; }
        std::size_t by = whole_pages(m.by);
        held.unlock();
        if (!this->upstream_.widen(m.base, m.bytes, by)) { by = 0; }
        held.lock();
        try {
            pages_.widen(m.base, by);
        } catch (...) {
            held.unlock();
            this->upstream_.shrink(m.base, m.bytes + by, by);
            held.lock();
            heap_.end_move(m, 0);
            throw;
        }
        heap_.end_move(m, by, true);
        return by == 0 ? nullptr : heap_.take_bare(r, held, before, missing);
    }
    /// Moves pages that nobody uses to the ones of `target()` that have none.
    template <class Target>
    void move_pages(request const& r, Target const& target, guard& held)
        requires paged
    {
        std::size_t const need = pages_.missing(target());
        if (need == 0) { return; }
        heap_.finish(held);
        std::size_t found = 0;
        block_list  aside;
        auto const  own = [&](block const& b) { return pages_.whole(b.address, b.end()); };
        heap_.set_aside(
            r.bytes, [&](block const& b) { return pages_.mapped(own(b)) != 0; },
            [&](block* b) {
                aside.insert(b);
                found += pages_.mapped(own(*b));
                return found < need;
            });
        while (block* const b = aside.front()) {
            auto const        from = own(*b);
            auto const        to   = target();
            std::size_t const has  = pages_.mapped(from);
            std::size_t const lack = pages_.missing(to);
            std::size_t       went = 0;
            if (lack != 0) {
                void* const       source = pages_.address(from);
                void* const       place  = pages_.address(to);
                std::size_t const n = pages_.bytes(from), m = pages_.bytes(to);
                held.unlock();
                went = this->upstream_.remap(source, n, place, m);
                held.lock();
                ++this->figures_.upstream;
                pages_.move(own(*b), target(), went);
                if (went != (has < lack ? has : lack)) { // some went astray: better no memory noted
                    pages_.set(own(*b), false);          // than none there
                    pages_.set(target(), false);
                }
            }
            block_list::remove(b);
            heap_.give_again(b);
        }
    }
    /// Gives memory to the pages that have none; all of them or none.
    bool fill(page_book::run const& pages, guard& held)
        requires paged
    {
        std::size_t const need = pages_.missing(pages);
        if (need == 0) { return true; }
        void* const       at    = pages_.address(pages);
        std::size_t const bytes = pages_.bytes(pages);
        held.unlock();
        bool filled = false;
        {
            typename base::claim mine{*this, need};
            if (mine.granted && this->upstream_.fill(at, bytes)) {
                held.lock();
                ++this->figures_.upstream;
                mine.keep();
                raise_most(this->figures_.reserved);
                filled = true;
            }
        }
        if (!filled) {
            held.lock();
            return false;
        }
        auto const first = reinterpret_cast<std::uintptr_t>(at);
        pages_.set(pages_.touched(first, first + bytes), true);
        return true;
    }
    /// Gives pages of free blocks back until at most `keep` free bytes are held.
    std::size_t drop_pages(std::size_t keep, guard& held)
        requires paged
    {
        std::size_t back = 0;
        if (unused() <= keep) { return 0; }
        heap_.finish(held);
        for (std::size_t bytes : {std::size_t{1}, bins::largest}) {
            while (unused() > keep && !stitching_) {
                block*     b   = nullptr;
                auto const own = [&](block const& one) {
                    return pages_.whole(one.address, one.end());
                };
                heap_.set_aside(
                    bytes, [&](block const& one) { return pages_.mapped(own(one)) != 0; },
                    [&](block* one) {
                        b = one;
                        return false;
                    });
                if (b == nullptr) { break; }
                page_book::run const from = own(*b);
                void* const          at   = pages_.address(from);
                std::size_t const    n    = pages_.bytes(from);
                held.unlock();
                std::size_t const gone = this->upstream_.drop(at, n);
                held.lock();
                ++this->figures_.upstream;
                this->figures_.reserved -= gone;
                pages_.move(own(*b), gone);
                heap_.give_again(b);
                back += gone;
                if (gone == 0) { break; }
            }
        }
        return back;
    }

    /// The last attempt: throws what the upstream throws, with the pool's numbers added.
    void* must_grow(request const& r) {
        return this->or_throw(
            {r.asked, r.bytes, r.alignment, r.on},
            [&]() -> void* {
                return r.possible() ? grow_by<true>(r, r.bytes, &r) : nullptr;
            },
            [&] {
                this->figures_.live = heap_.live_bytes(); // which only the heap counts
                return heap_.blocks().largest_free();
            });
    }

    void give_everything_back() noexcept {
        if (heap_.blocks().empty()) { return; }
        auto held = this->lock_.hold();
        if (heap_.live_bytes() != 0) {
            report_error({.kind = mishap::leak, .bytes = heap_.live_bytes()});
        }
        heap_.settle(held);
        held.unlock();
        heap_.blocks().for_each_chunk([&](chunk const& c) {
            this->upstream_.deallocate_sync(c.base, c.bytes, c.alignment);
        });
    }

    pool_options                            options_;
    [[no_unique_address]] Growth            growth_;
    mutable stream_heap<platform, in_place> heap_; ///< who asks for its figures tidies it
    page_book   pages_;                 ///< over virtual memory
    std::size_t most_      = 0;         ///< bytes held at once, ever
    bool        stitching_ = false;     ///< somebody is about pages
};

namespace with {
/// `source | with::pool`, `source | with::pool({.max_size = 8_GiB})`, and `source |
/// with::pool(1_GiB)`, which takes a gigabyte at once.
struct pool_word : word<vram::pool, pool_options> {
    using word<vram::pool, pool_options>::operator();
    [[nodiscard]] auto operator()(std::size_t initial_size) const {
        return layer<vram::pool>(pool_options{.initial_size = initial_size});
    }
};
inline constexpr pool_word pool{};
} // namespace with

static_assert(powers<pool<null_resource<>>>::include<null_resource<>>);
static_assert(resource<pool<null_resource<>>> && retiring_resource<pool<null_resource<>>>);

} // namespace vram
