// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `paged_base` is the part of a pool that puts memory under addresses, page by page.

#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/pool/block_list.hpp>     // block_list
#include <vram/pool/in_place_base.hpp>  // in_place_base
#include <vram/pool/page_book.hpp>      // page_book

#include <concepts>         // assignable_from
#include <cstddef>          // size_t, byte
#include <cstdint>          // uintptr_t
#include <initializer_list> // initializer_list
#include <utility>          // move

namespace vram {

/// Chunks are addresses; what is free in them may have memory or not. A request that no free block
/// with memory can meet gets some under one that has too little: pages that nobody uses elsewhere
/// where `options.remap` says so (the page stitching of GMLake, 2024), then new ones.
///
/// Failure   as the upstream; what the driver does half is taken for not done, so that a page
///           without memory is never handed out
/// Threads   any; one at a time is about pages, and others make a chunk of their own meanwhile
/// Cost      that of the upstream, and a walk over all blocks; where pages move that were not there
///           last, the host waits for all that was freed
template <remappable_resource Upstream, growth Growth>
class paged_base : public in_place_base<Upstream, Growth> {
    using base = in_place_base<Upstream, Growth>;

public:
    using typename base::stream;

protected:
    using typename base::chunk;
    using typename base::guard;
    using typename base::move_of_end;
    using typename base::request;
    using base::heap_;
    using base::unused;

    paged_base(Upstream upstream, pool_options const& options, Growth growth)
        : base{std::move(upstream), options, std::move(growth)},
          pages_{this->upstream_.page_size()} {}
    paged_base(paged_base&&) = default;
    paged_base& operator=(paged_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        pages_ = std::move(other.pages_);
        return *this;
    }
    ~paged_base() = default;

    /// Puts memory under a free block that has too little: with `remap` what other free blocks
    /// have and nobody uses, and then more from the device; at the end of a chunk also what the
    /// policy wants beyond the request (`more`), where no pages move. Null where no block is large
    /// enough, or there is no memory, or somebody else is at it.
    void* lengthen(request const& r, bool captured, bool more) {
        auto held = this->lock_.hold();
        if (stitching_) { return nullptr; }
        bool const     move  = this->options_.remap && !captured;
        std::uintptr_t until = 0;
        block* const   b     = bare_block(r, held, more && !this->options_.remap, until);
        if (b == nullptr || stitching_) {
            if (b != nullptr) { heap_.give_bare(b, nullptr); }
            return nullptr;
        }
        stitching_                 = true;
        auto const          target = [&] { return pages_.touched(b->address, b->end()); };
        stream const* const mover  = move ? r.on : nullptr;
        bool                filled = false;
        try {
            bool const sure = move ? find_pages(r, b, target, held) : !captured;
            filled          = until > b->end() && fill_unleft(b->address, until, held);
            filled =
                filled || (sure ? fill(target(), held) : fill_unleft(b->address, b->end(), held));
        } catch (...) {
            stitching_ = false;
            heap_.give_bare(b, mover);
            throw;
        }
        stitching_ = false;
        if (!filled) {
            heap_.give_bare(b, mover);
            return nullptr;
        }
        return hand_over(b);
    }
    /// Where pages move no hole is lost.
    void* take_in_hole(request const& r) {
        return this->options_.remap ? nullptr : base::take_in_hole(r);
    }
    /// A block of which a part has no memory, but not the part that is asked for.
    void* take_beside(request const& r, guard& held) {
        block* const b = heap_.take_bare(r, held, [&](std::uintptr_t from, std::uintptr_t to) {
            return pages_.missing(pages_.touched(from, to)) == 0 ? 0 : ~std::size_t{0};
        });
        return b != nullptr ? hand_over(b) : nullptr;
    }
    /// A block that has memory now is its client's. What it was cut from may have all of its own.
    void* hand_over(block* b) noexcept {
        for (block* beside : {b->before, b->after}) {
            if (beside == nullptr || !beside->bare || beside->bytes == 0) { continue; }
            if (beside->now == block::state::live) { continue; } // on its way to somebody else
            beside->bare = lacks(*beside);
        }
        return heap_.filled(b);
    }
    /// A block for the request, with memory or without; where there is none, behind the end of a
    /// chunk, which is moved out by what the policy wants (`more`) or what is needed: to `until`.
    /// That stays 0 where the block is not the front of what is free there.
    block* bare_block(request const& r, guard& held, bool more, std::uintptr_t& until) {
        auto const missing = [&](std::uintptr_t from, std::uintptr_t to) {
            return pages_.missing(pages_.touched(from, to));
        };
        if (block* const b = heap_.take_bare(r, held, missing)) { return b; }
        move_of_end const m = heap_.begin_growth(r);
        if (m.base == nullptr) { return nullptr; }
        std::size_t const by = this->move_end(r, m, more, held, [&](std::size_t n) {
            n = this->whole_pages(n);
            return this->upstream_.widen(m.base, m.bytes, n) ? n : 0;
        });
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
        if (by == 0) { return nullptr; }
        block* const         b    = heap_.take_bare(r, held, missing);
        auto const           from = reinterpret_cast<std::uintptr_t>(m.base);
        std::uintptr_t const end  = from + m.bytes + by;
        // Others may have given back a better one meanwhile. Behind each there is another: where a
        // chunk ends, what is free, were it nothing.
        if (b != nullptr && b->address >= from && b->after->end() == end) { until = end; }
        return b;
    }
    /// Moves pages of free blocks to the ones of `b`, which are `target()`, that have none. Those
    /// that were there last come first, of blocks that the stream may have at once: then nothing is
    /// mapped, and nobody waits. False: no other memory may be mapped there, for some has left that
    /// a stream may still use by these addresses, and that stream is being captured.
    template <class Target>
    bool find_pages(request const& r, block* b, Target const& target, guard& held) {
        auto const lack = [&] { return pages_.missing(target()) != 0; };
        // Where memory left a page, streams may still use it by that address, which gets other now.
        bool const left = pages_.left(target());
        if (!left && !heap_.may_have_pages(r.bytes, pages_.page())) { return true; }
        if (lack() && r.on != nullptr) { recall_pages(r, r.on, b, target, held); }
        if (!lack()) { return true; }
        bool const all = heap_.finish(held);
        recall_pages(r, nullptr, b, target, held);
        if (!all && pages_.left(target())) { return false; }
        if (lack()) { move_pages(r, target, held); }
        return true;
    }
    /// Takes pages back that were at those of `target()` last, where `on` may use them at once
    /// (null: where nobody uses them any more).
    template <class Target>
    void recall_pages(request const& r, stream const* on, block* b, Target const& target,
                      guard& held) {
        std::size_t const page = pages_.page();
        auto const        all  = target();
        recalled_.clear();
        recalled_.reserve(all.last - all.first);
        for (std::size_t i = all.first; i != all.last; ++i) {
            page_book::run const one{all.chunk, i, i + 1};
            if (pages_.mapped(one) == 0) { recalled_.push(recall{nullptr, pages_.address(one)}); }
        }
        held.unlock(); // these pages are ours
        for (recall& each : recalled_) { each.from = this->upstream_.moved_to(each.to); }
        held.lock();
        for (recall const& each : recalled_) { pages_.want(each.from, true); }
        block_list aside;
        heap_.set_aside(
            r.bytes, on,
            [&](block const& one) { return pages_.wanted(pages_.whole(one.address, one.end())); },
            [&](block* one) {
                pages_.give(pages_.whole(one->address, one->end()));
                aside.insert(one);
                return true;
            });
        for (recall const& each : recalled_) {
            if (on == nullptr || !pages_.given(each.from)) { continue; }
            if (!share(b, each.to, *on)) { pages_.want(each.from, false); } // it stays there
        }
        for (std::size_t i = 0, end = 0; i != recalled_.size(); i = end) {
            recall const one = recalled_[i];
            end              = i + 1;
            if (!pages_.given(one.from)) { continue; }
            while (end != recalled_.size() && pages_.given(recalled_[end].from) &&
                   recalled_[end].follows(one, (end - i) * page)) {
                ++end; // neighbours go together
            }
            for (std::size_t k = i; k != end; ++k) { pages_.want(recalled_[k].from, false); }
            carry(one.from, one.to, (end - i) * page, held);
        } // a page that was at two of them last came to the first
        for (recall const& each : recalled_) { pages_.want(each.from, false); }
        while (block* const one = aside.front()) {
            block_list::remove(one);
            heap_.give_again(one, lacks(*one));
        }
    }
    /// What only `s` may use comes to a page of `b`: free blocks beside it may have a part of the
    /// first and of the last one, and it is noted with them. False: there is no room for that.
    bool share(block* b, void const* page, stream s) noexcept {
        auto const           at   = reinterpret_cast<std::uintptr_t>(page);
        std::uintptr_t const from = at < b->address ? at : b->address;
        std::uintptr_t const to   = at + pages_.page() > b->end() ? at + pages_.page() : b->end();
        if (from == b->address && to == b->end()) { return true; }
        try {
            return heap_.share(b, from, to, s);
        } catch (...) { return false; } // no memory for it
    }
    /// Moves the memory of `bytes` at `from`, where each page has some, to `to`, where none has.
    void carry(void* from, void* to, std::size_t bytes, guard& held) {
        held.unlock();
        std::size_t const went = this->upstream_.remap(from, bytes, to, bytes);
        held.lock();
        ++this->figures_.upstream;
        if (went == bytes) {
            pages_.move(run_at(from, bytes), run_at(to, bytes), went);
        } else {
            look_again({{from, bytes}, {to, bytes}}, held);
        }
    }
    /// Moves any pages that nobody uses.
    template <class Target>
    void move_pages(request const& r, Target const& target, guard& held) {
        std::size_t const need  = pages_.missing(target());
        std::size_t       found = 0;
        block_list        aside;
        auto const        own = [&](block const& b) { return pages_.whole(b.address, b.end()); };
        heap_.set_aside(
            r.bytes, nullptr, [&](block const& b) { return pages_.mapped(own(b)) != 0; },
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
                if (went == (has < lack ? has : lack)) {
                    pages_.move(own(*b), target(), went);
                } else {
                    look_again({{source, n}, {place, m}}, held);
                }
            }
            block_list::remove(b);
            heap_.give_again(b, lacks(*b));
        }
    }
    [[nodiscard]] bool lacks(block const& b) const noexcept {
        return pages_.missing(pages_.touched(b.address, b.end())) != 0;
    }
    struct range {
        void*       at;
        std::size_t bytes;
    };
    /// Asks page by page, where a move was not what it should have been. What is held is counted
    /// when all is known: meanwhile others must not take it for room within the limit.
    void look_again(std::initializer_list<range> all, guard& held) {
        auto const behind_all = [&] {
            std::size_t sum = 0;
            for (range const& r : all) { sum += pages_.mapped(run_at(r.at, r.bytes)); }
            return sum;
        };
        std::size_t const had  = behind_all();
        std::size_t const page = pages_.page();
        for (range const& r : all) {
            for (std::size_t done = 0; done != r.bytes; done += page) {
                void* const p = static_cast<std::byte*>(r.at) + done;
                held.unlock();
                bool const there = this->upstream_.mapped(p, page) != 0;
                held.lock();
                page_book::run const one = run_at(p, page);
                pages_.set(one, there);
                pages_.leave(one); // it may have gone anywhere
            }
        }
        this->figures_.reserved = this->figures_.reserved - had + behind_all();
    }
    [[nodiscard]] page_book::run run_at(void const* p, std::size_t bytes) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        return pages_.touched(at, at + bytes);
    }
    /// Gives memory to the pages that have none; all of them or none.
    bool fill(page_book::run const& pages, guard& held) {
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
                filled = true;
            }
        }
        if (!filled) {
            held.lock();
            return false;
        }
        pages_.set(run_at(at, bytes), true);
        return true;
    }
    /// The same for a range of which nobody knows whether streams are done with memory that left
    /// its pages: as long as they are not, no other may be mapped there. False where some has left.
    bool fill_unleft(std::uintptr_t from, std::uintptr_t to, guard& held) {
        auto const all = pages_.touched(from, to);
        return !pages_.left(all) && fill(all, held);
    }
    /// Gives pages of free blocks back until at most `keep` free bytes are held.
    std::size_t give_parts_back(std::size_t keep, guard& held) {
        std::size_t back = 0;
        for (std::size_t bytes : {std::size_t{1}, bins::largest}) {
            while (unused() > keep && !stitching_) {
                block*     b   = nullptr;
                auto const own = [&](block const& one) {
                    return pages_.whole(one.address, one.end());
                };
                heap_.set_aside(
                    bytes, nullptr, [&](block const& one) { return pages_.mapped(own(one)) != 0; },
                    [&](block* one) {
                        b = one;
                        return false;
                    });
                if (b == nullptr) { break; }
                page_book::run const from     = pages_.back(own(*b), unused() - keep);
                std::size_t const    expected = pages_.mapped(from);
                void* const          at       = pages_.address(from);
                std::size_t const    n        = pages_.bytes(from);
                held.unlock();
                std::size_t const gone = this->upstream_.drop(at, n);
                held.lock();
                ++this->figures_.upstream;
                if (gone == expected) {
                    pages_.set(run_at(at, n), false);
                    this->figures_.reserved -= gone;
                } else {
                    look_again({{at, n}}, held); // some would not go
                }
                heap_.give_again(b, lacks(*b));
                back += gone;
                if (gone != expected) { break; }
            }
        }
        return back;
    }

    /// Addresses that are taken at once have memory from the start.
    template <bool Throwing>
    void* new_chunk(request const& r, std::size_t size, request const* out) {
        return this->template take_chunk<Throwing>(r, this->whole_pages(size), out, pages_);
    }
    /// A bare block has what lies on pages of its own.
    [[nodiscard]] std::size_t behind(block const& b) const noexcept {
        return b.bare ? pages_.mapped(pages_.whole(b.address, b.end())) : b.bytes;
    }
    static void make_way(std::size_t) noexcept {} // pages go one by one
    bool        give_chunk_back(chunk const& gone, guard& held, std::size_t& back) {
        if (gone.bytes == 0) { return false; }
        std::size_t const real = pages_.remove(gone.base);
        back += real;
        this->figures_.reserved += gone.bytes - real; // which counts memory, and then all of it
        this->give_back(gone.base, gone.bytes, gone.alignment, held);
        return true;
    }

private:
    struct recall {
        void *from, *to;

        /// Whether it lies `by` bytes behind `other`, here and there.
        [[nodiscard]] bool follows(recall const& other, std::size_t by) const noexcept {
            return from == static_cast<std::byte*>(other.from) + by &&
                   to == static_cast<std::byte*>(other.to) + by;
        }
    };

    page_book          pages_;
    heap_array<recall> recalled_;          ///< by whoever is about pages
    bool               stitching_ = false; ///< somebody is
};

} // namespace vram
