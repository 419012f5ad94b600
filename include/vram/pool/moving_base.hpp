// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `moving_base` is the part of a pool that brings memory of free pages to where it is needed.

#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/pool/block_list.hpp>     // block_list
#include <vram/pool/mapped_base.hpp>    // mapped_base

#include <cstddef>          // size_t, byte
#include <cstdint>          // uintptr_t
#include <initializer_list> // initializer_list
#include <utility>          // exchange

namespace vram {

/// Memory that comes back to where it was last needs the order of streams, and no call of the
/// driver. Where an address that never had memory gets that of a page which the asking stream may
/// have, it is mapped there as well, and nobody waits. Where an address must get other memory than
/// it had, that is unmapped, and the host waits for all that was freed before (the page stitching
/// of GMLake, 2024).
///
/// Failure   as `mapped_base`; what did not come stays where it was
/// Threads   one at a time
/// Cost      a walk over the free blocks of at least a page; that of the upstream
template <remappable_resource Upstream, growth Growth>
class moving_base : public mapped_base<Upstream, Growth> {
    using base = mapped_base<Upstream, Growth>;

public:
    using typename base::stream;

protected:
    using typename base::guard;
    using typename base::request;
    using base::base;
    using base::heap_;
    using base::pages_;

    /// Brings memory to pages of `b`, which are `target()`, that have none: to each its own, and to
    /// at most `others` that never had any that of any free page; both where `on` may use them at
    /// once (null: where nobody uses them any more).
    template <class Target>
    void bring(request const& r, stream const* on, block* b, Target const& target,
               std::size_t others, guard& held) {
        auto const        price = heap_.price_for(on); // from here on nothing fails
        std::size_t const bare  = note_moves(target(), others != 0);
        if (moves_.size() == 0) { return; }
        if (others > bare) { others = bare; }
        block_list aside;
        auto const own = [&](block const& one) { return pages_.whole(one.address, one.end()); };
        heap_.for_each_ready(r.bytes, pages_.page(), price, [&](block* one) {
            if (!pages_.wanted(own(*one))) { return; }
            heap_.set_aside(one);
            aside.insert(one);
            pages_.give(own(*one));
        });
        if (others != 0) { // from the ends of chunks on, which are needed least
            heap_.set_aside(
                r.bytes, price, [&](block const& one) { return pages_.mapped(own(one)) != 0; },
                [&](block* one) {
                    aside.insert(one);
                    give_any(own(*one), others);
                    return others != 0;
                });
            for (block* one = aside.front(); one != nullptr && others != 0;
                 one        = aside.after(one)) {
                give_any(own(*one), others); // what of them nobody wanted
            }
        }
        if (on != nullptr) { share_ends(b, target(), *on); }
        carry_all(held);
        while (block* const one = aside.front()) {
            block_list::remove(one);
            heap_.give_again(one, this->lacks(*one));
        }
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
        if (lack() && r.on != nullptr) { bring(r, r.on, b, target, 0, held); }
        if (!lack()) { return true; }
        bool const all = heap_.finish(held);
        bring(r, nullptr, b, target, 0, held);
        if (!all && pages_.left(target())) { return false; }
        if (lack()) { move_pages(r, target, held); }
        return true;
    }

private:
    /// Pages in a row. By their addresses: chunks may get other numbers while the lock is open.
    struct page_move {
        std::byte*  from; ///< null: it is not known yet which
        std::byte*  to;
        std::size_t bytes;
    };

    /// The pages of a run without memory, the last ones first, and where their own is, which is
    /// wanted; with those that never had any (`fresh`), or without. Returns how many those are.
    std::size_t note_moves(page_book::run const& all, bool fresh) {
        std::size_t const page  = pages_.page();
        std::size_t       bare  = 0;
        std::size_t       whose = 0; // chunk the last row comes from: two may touch
        moves_.clear();
        moves_.reserve(all.size());
        pages_.for_each_missing(all, [&](page_place const& place, bool left) {
            auto* const to   = static_cast<std::byte*>(pages_.address(place));
            std::byte*  from = nullptr;
            bool        same = true;
            if (left) {
                auto const source = pages_.source_of(place, {});
                if (!source.known) { return true; }
                from = static_cast<std::byte*>(pages_.address(source.where));
                same = source.where.chunk == std::exchange(whose, source.where.chunk);
            } else if (!fresh) {
                return true;
            } else {
                ++bare;
            }
            page_move* const last   = moves_.size() != 0 ? moves_.end() - 1 : nullptr;
            bool const       before = last != nullptr && same && last->to == to + page &&
                                last->from == (from != nullptr ? from + page : nullptr);
            if (before) {
                *last = {from, to, last->bytes + page};
            } else {
                moves_.push(page_move{from, to, page});
            }
            return true;
        });
        for (page_move const& m : moves_) {
            if (m.from != nullptr) { pages_.want(this->run_at(m.from, m.bytes), true); }
        }
        return bare;
    }
    /// Gives pages of a run that nobody was given, the last ones first, to moves that may have any,
    /// as long as there are `others`.
    void give_any(page_book::run own, std::size_t& others) noexcept {
        auto const idle = [&](std::size_t i) {
            return pages_.has({own.chunk, i}) && !pages_.given({own.chunk, i});
        };
        std::size_t const page = pages_.page();
        page_move*        any  = moves_.begin();
        for (; own.last != own.first && others != 0;) {
            if (!idle(own.last - 1)) {
                --own.last;
                continue;
            }
            while (any != moves_.end() && any->from != nullptr) { ++any; }
            if (any == moves_.end()) { return; }
            std::size_t n = 0;
            while (n != others && n * page != any->bytes && own.last != own.first &&
                   idle(own.last - 1)) {
                --own.last;
                ++n;
            }
            others -= n;
            page_book::run const taken{own.chunk, own.last, own.last + n};
            auto* const          from = static_cast<std::byte*>(pages_.address(taken));
            any->bytes -= n * page;
            page_move const found{from, any->to + any->bytes, n * page};
            if (any->bytes == 0) {
                *any = found;
            } else {
                moves_.push(found); // there is room for each page
            }
            pages_.want(taken, true);
            pages_.give(taken);
        }
    }
    /// Makes the moves of what was given, and of nothing else. Who has a page that is wanted may
    /// give its chunk back while the lock is open, so nothing is wanted from then on.
    void carry_all(guard& held) {
        for (std::size_t i = 0, n = moves_.size(); i != n; ++i) {
            page_move const all = moves_[i];
            moves_[i].bytes     = 0;
            if (all.from == nullptr) { continue; }
            for (std::size_t at = 0; at != all.bytes;) {
                std::size_t const part = given_from(all, at);
                if (part == 0) {
                    at += pages_.page();
                    continue;
                }
                page_move const one{all.from + at, all.to + at, part};
                if (moves_[i].bytes == 0) {
                    moves_[i] = one;
                } else {
                    moves_.push(one); // there is room for each page
                }
                pages_.want(this->run_at(one.from, part), false);
                at += part;
            } // a page that was at two of them last comes to the first
            pages_.want(this->run_at(all.from, all.bytes), false);
        }
        for (page_move const& m : moves_) {
            if (m.bytes != 0) { this->carry(m.from, m.to, m.bytes, held); }
        }
    }
    /// How many bytes of a move were given, from `at` on.
    [[nodiscard]] std::size_t given_from(page_move const& m, std::size_t at) const noexcept {
        return pages_.given_first(this->run_at(m.from + at, m.bytes - at));
    }
    /// What only `s` may use comes to the first and the last page of `b`, of which free blocks
    /// beside it may have a part. Where that cannot be noted with them it stays where it is.
    void share_ends(block* b, page_book::run const& all, stream s) noexcept {
        for (std::size_t const i : {all.first, all.last - 1}) {
            auto* const p = static_cast<std::byte*>(pages_.address(page_place{all.chunk, i}));
            for (page_move const& m : moves_) {
                if (m.from == nullptr || p < m.to || p >= m.to + m.bytes) { continue; }
                page_place const from = this->page_at(m.from + (p - m.to));
                if (!pages_.given(from) || share(b, p, s)) { continue; }
                pages_.want(page_book::run_of(from), false);
            }
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
    /// Moves any pages that nobody uses.
    template <class Target>
    void move_pages(request const& r, Target const& target, guard& held) {
        std::size_t const need  = pages_.missing(target());
        std::size_t       found = 0;
        block_list        aside;
        auto const        own = [&](block const& b) { return pages_.whole(b.address, b.end()); };
        heap_.set_aside(
            r.bytes, heap_.price_for(nullptr),
            [&](block const& b) { return pages_.mapped(own(b)) != 0; },
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
            if (lack != 0) {
                this->move(pages_.address(from), pages_.bytes(from), pages_.address(to),
                           pages_.bytes(to), has < lack ? has : lack, held);
            }
            block_list::remove(b);
            heap_.give_again(b, this->lacks(*b));
        }
    }

    heap_array<page_move> moves_; ///< of whoever is about pages
};

} // namespace vram
