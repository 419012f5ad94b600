// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_mover` maps the physical memory of a pool's free pages to other addresses.

#include <vram/base/core/heap_array.hpp>
#include <vram/pool/core/block_list.hpp>
#include <vram/pool/core/page_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Moves physical memory from free pages to pages of a block that lack memory, in place of new
/// memory (page stitching: GMLake, 2024). The old address stays mapped to this memory, too. So a
/// move back needs no driver call and no wait of the host.
///
/// Failure   As `page_memory`.
/// Threads   One thread at a time.
template <class Platform>
class page_mover : public page_memory<Platform> {
    using base = page_memory<Platform>;

public:
    using typename base::guard;
    using stream = typename Platform::stream;

    using base::base;

    /// Moves memory of free blocks to pages of `b` that lack memory. `target()` returns the pages
    /// of `b`. Takes only blocks that the stream `on` (null: the host) can use without a wait.
    /// Pages get back the memory that was moved away from them. In addition, at most `others` pages
    /// get memory of any free page.
    template <class Core, class Target>
    void back_from_free(Core& core, typename Core::request const& r, stream const* on, block* b,
                        Target const& target, std::size_t others, guard& held) {
        // The next two calls may throw, so they come before all changes.
        auto const        price    = core.heap_.price_for(on);
        std::size_t const unbacked = note_moves(target(), others != 0);
        if (moves_.size() == 0) { return; }
        if (others > unbacked) { others = unbacked; }
        block_list aside;
        auto const own = [&](block const& one) { return this->book.whole(one.address, one.end()); };
        core.heap_.for_each_ready(r.bytes, this->book.page(), price, [&](block* one) {
            if (!this->book.wanted(own(*one))) { return; }
            core.heap_.set_aside(one);
            aside.insert(one);
            this->book.give(own(*one));
        });
        if (others != 0) {
            core.heap_.set_aside(
                r.bytes, price, [&](block const& one) { return this->book.mapped(own(one)) != 0; },
                [&](block* one) {
                    aside.insert(one);
                    give_any(own(*one), others);
                    return others != 0;
                });
            for (block* one = aside.front(); one != nullptr && others != 0;
                 one        = aside.after(one)) {
                // Also takes pages of blocks that were in `aside` before. The search above did not
                // find them.
                give_any(own(*one), others);
            }
        }
        // The first or last page of `b` may contain a part of a free neighbour. If such a page gets
        // memory, records that other streams must wait for `on` before they use the neighbour.
        if (on != nullptr) { share_ends(core, b, target(), *on); }
        remap_all(core, held);
        while (block* const one = aside.front()) {
            block_list::remove(one);
            core.heap_.give_again(one, this->lacks(*one));
        }
    }

    /// Moves memory of free blocks to pages of `b` that lack memory. `target()` returns the pages
    /// of `b`. The host may wait for streams. Returns false if the caller must not map new memory
    /// to the pages that still lack memory.
    template <class Core, class Target>
    bool find_pages(Core& core, typename Core::request const& r, block* b, Target const& target,
                    guard& held) {
        auto const lack = [&] { return this->book.missing(target()) != 0; };
        // True if memory of a page of `b` was moved to another page. Streams may still use this
        // memory at its old address, so mapping other memory there requires a wait.
        bool const left = this->book.left(target());
        if (!left && !core.heap_.may_have_pages(r.bytes, this->book.page())) { return true; }
        if (lack() && r.on != nullptr) { back_from_free(core, r, r.on, b, target, 0, held); }
        if (!lack()) { return true; }
        bool const all = core.heap_.finish(held);
        back_from_free(core, r, nullptr, b, target, 0, held);
        if (!all && this->book.left(target())) { return false; }
        if (lack()) { move_pages(core, r, target, held); }
        return true;
    }

private:
    /// A planned move of the memory of consecutive pages. Stores addresses, because the index of a
    /// chunk may change while the lock is released.
    struct page_move {
        std::byte*  from; ///< address from which pages are moved, or null if none is selected yet
        std::byte*  to;
        std::size_t bytes;
    };

    /// Plans moves that give the pages of the run back the memory that was moved away from them. If
    /// `fresh`, also plans moves to the other pages without memory, and returns their number. The
    /// sources of these other moves are chosen later.
    std::size_t note_moves(page_book::run const& all, bool fresh) {
        std::size_t const page     = this->book.page();
        std::size_t       unbacked = 0;
        // Index of the chunk of the previous source page. A move must not cover pages of two
        // chunks.
        std::size_t last_chunk = 0;
        moves_.clear();
        moves_.reserve(all.size());
        this->book.for_each_missing(all, [&](page_place const& place, bool left) {
            auto* const to   = static_cast<std::byte*>(this->book.address(place));
            std::byte*  from = nullptr;
            bool        same = true;
            if (left) {
                auto const source = this->book.source_of(place, {});
                if (!source.known) { return true; }
                from = static_cast<std::byte*>(this->book.address(source.where));
                same = source.where.chunk == std::exchange(last_chunk, source.where.chunk);
            } else if (!fresh) {
                return true;
            } else {
                ++unbacked;
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
            if (m.from != nullptr) { this->book.want(this->run_at(m.from, m.bytes), true); }
        }
        return unbacked;
    }
    /// Chooses sources for the planned moves that have no source yet. Takes at most `others` pages,
    /// from the end of the run `own`. Subtracts the number of taken pages from `others`.
    void give_any(page_book::run own, std::size_t& others) noexcept {
        auto const idle = [&](std::size_t i) {
            return this->book.has({own.chunk, i}) && !this->book.given({own.chunk, i});
        };
        std::size_t const page = this->book.page();
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
            auto* const          from = static_cast<std::byte*>(this->book.address(taken));
            any->bytes -= n * page;
            page_move const found{from, any->to + any->bytes, n * page};
            if (any->bytes == 0) {
                *any = found;
            } else {
                moves_.push(found); // cannot fail: `note_moves` reserved enough room
            }
            this->book.want(taken, true);
            this->book.give(taken);
        }
    }
    /// Performs the planned `moves_`. Skips each source page without the mark `given` (permission
    /// to move the memory of a page).
    template <class Core>
    void remap_all(Core& core, guard& held) {
        // First selects all parts to move and clears all marks. Each move releases the lock, and
        // another thread may then remove a chunk with marked pages.
        for (std::size_t i = 0, n = moves_.size(); i != n; ++i) {
            page_move const all = moves_[i];
            moves_[i].bytes     = 0;
            if (all.from == nullptr) { continue; }
            for (std::size_t at = 0; at != all.bytes;) {
                std::size_t const part = given_from(all, at);
                if (part == 0) {
                    at += this->book.page();
                    continue;
                }
                page_move const one{all.from + at, all.to + at, part};
                if (moves_[i].bytes == 0) {
                    moves_[i] = one;
                } else {
                    moves_.push(one); // cannot fail: `note_moves` reserved enough room
                }
                this->book.want(this->run_at(one.from, part), false);
                at += part;
            } // if two moves have the same source page, only the first gets the page
            this->book.want(this->run_at(all.from, all.bytes), false);
        }
        for (page_move const& m : moves_) {
            if (m.bytes != 0) { this->remap_run(core, m.from, m.to, m.bytes, held); }
        }
    }
    /// Returns the size in bytes of the pages of the move `m`, from the offset `at` on, that all
    /// have the mark `given` (permission to move the memory of a page).
    [[nodiscard]] std::size_t given_from(page_move const& m, std::size_t at) const noexcept {
        return this->book.given_first(this->run_at(m.from + at, m.bytes - at));
    }
    /// The first or last page of `b` may contain a part of a free neighbour. If a planned move
    /// gives memory to such a page, records that work of the stream `s` may use the neighbour. If
    /// the record fails, cancels the move of the page.
    template <class Core>
    void share_ends(Core& core, block* b, page_book::run const& all, stream s) noexcept {
        for (std::size_t const i : {all.first, all.last - 1}) {
            auto* const p = static_cast<std::byte*>(this->book.address(page_place{all.chunk, i}));
            for (page_move const& m : moves_) {
                if (m.from == nullptr || p < m.to || p >= m.to + m.bytes) { continue; }
                page_place const from = this->page_at(m.from + (p - m.to));
                if (!this->book.given(from) || share(core, b, p, s)) { continue; }
                this->book.want(page_book::run_of(from), false);
            }
        }
    }
    /// Records that work of the stream `s` may use the free neighbours of `b` on the page at
    /// `page`. Returns false if the record fails.
    template <class Core>
    bool share(Core& core, block* b, void const* page, stream s) noexcept {
        auto const           at   = reinterpret_cast<std::uintptr_t>(page);
        std::uintptr_t const from = at < b->address ? at : b->address;
        std::uintptr_t const to =
            at + this->book.page() > b->end() ? at + this->book.page() : b->end();
        if (from == b->address && to == b->end()) { return true; }
        try {
            return core.heap_.share(b, from, to, s);
        } catch (...) { return false; } // no host memory for the record
    }
    /// Moves memory of free pages that no stream uses to pages of a block that lack memory.
    /// `target()` returns the pages of the block. Some of them may still lack memory afterwards.
    template <class Core, class Target>
    void move_pages(Core& core, typename Core::request const& r, Target const& target,
                    guard& held) {
        std::size_t const need  = this->book.missing(target());
        std::size_t       found = 0;
        block_list        aside;
        auto const own = [&](block const& b) { return this->book.whole(b.address, b.end()); };
        core.heap_.set_aside(
            r.bytes, core.heap_.price_for(nullptr),
            [&](block const& b) { return this->book.mapped(own(b)) != 0; },
            [&](block* b) {
                aside.insert(b);
                found += this->book.mapped(own(*b));
                return found < need;
            });
        while (block* const b = aside.front()) {
            auto const        from = own(*b);
            auto const        to   = target();
            std::size_t const has  = this->book.mapped(from);
            std::size_t const lack = this->book.missing(to);
            if (lack != 0) {
                this->move(core, this->book.address(from), this->book.bytes(from),
                           this->book.address(to), this->book.bytes(to), has < lack ? has : lack,
                           held);
            }
            block_list::remove(b);
            core.heap_.give_again(b, this->lacks(*b));
        }
    }

    /// The planned moves of physical memory. Only the thread that owns the `page_turn` (the right
    /// to change mappings) may use them.
    heap_array<page_move> moves_;
};

} // namespace detail
} // namespace vram
