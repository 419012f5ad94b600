// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `paged_base` is the part of a pool that maps physical memory to addresses, page by page.

#include <vram/base/contract.hpp>       // expects
#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/pool/moving_base.hpp>    // moving_base

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <limits>  // numeric_limits
#include <utility> // move

namespace vram {

/// Allocates over virtual memory. If no free block with memory fits a request, memory is mapped to
/// a block that lacks some, or behind the end of a chunk: first the memory that was there last,
/// then new memory. Memory of other free pages is used instead of new memory if `options.remap` is
/// set, or if more would be reserved than `options.slack` allows.
///
/// Failure   The functions fail as those of the upstream.
/// Threads   Any number of threads may call concurrently. One thread at a time changes mappings.
///           Other threads allocate a chunk instead, or wait if there is no memory for one.
/// Cost      The calls of the upstream, and a walk over the free blocks of a page or more. With
///           `remap`, the host waits for all pending uses if pages move to addresses where they
///           were not last.
template <remappable_resource Upstream, growth Growth>
class paged_base : public moving_base<Upstream, Growth> {
    using base = moving_base<Upstream, Growth>;

protected:
    using typename base::guard;
    using typename base::chunk_growth;
    using typename base::request;
    using typename base::stream;
    using base::heap_;
    using base::pages_;

    paged_base(Upstream upstream, pool_options const& options, Growth growth)
        : base{std::move(upstream), options, std::move(growth)} {
        expects(options.slack >= 0, "pool: the slack is not negative");
    }

    /// Maps memory to a free block that lacks some and allocates `r` there. At the end of a chunk,
    /// maps as much as the growth policy wants (`more`), unless pages are remapped. Returns null if
    /// no block is large enough, if there is no memory, or if another thread is changing mappings.
    void* lengthen(request const& r, bool captured, bool more) {
        std::size_t const bytes = captured ? 0 : device_of(r);
        auto              held  = this->lock_.hold();
        if (this->about_pages()) { return nullptr; }
        if (!captured) { device_ = bytes; }
        bool const     remap = this->options_.remap && !captured;
        bool const     ample = !this->options_.remap && excess(r.bytes, r) == 0;
        std::uintptr_t until = 0;
        return stitch(
            r, captured, [&] { return bare_block(r, captured, held, more && ample, until); },
            [&](block* b, auto const& target) {
                bool sure = false; // true if no stream uses the previous memory of these pages
                if (remap) {
                    sure = this->find_pages(r, b, target, held);
                } else if (!captured) {
                    share_pages(r, b, target, held);
                }
                if (until > b->end() && this->fill_unleft(b->address, until, held)) { return; }
                if (sure && this->fill(target(), held)) { return; }
                if (!sure && this->fill_unleft(b->address, b->end(), held)) { return; }
                // Share free pages, because the device has no more memory.
                if (!remap && !captured && shares()) {
                    this->bring(r, r.on, b, target, ~std::size_t{0}, held);
                }
            });
    }
    /// Allocates a small block in a hole between large blocks, unless pages are remapped, which
    /// uses holes anyway.
    void* take_in_hole(request const& r) {
        return this->options_.remap ? nullptr : base::take_in_hole(r);
    }
    /// Allocates a block that has its memory, or can get it back at once.
    void* take_beside(request const& r, bool captured, guard& held) {
        if (this->options_.remap) {
            block* const b = heap_.take_bare(r, held, [&](block const& one) {
                judged const found = by_lack(one, r);
                return found.cost == 0 ? found : judged{};
            });
            return b != nullptr ? this->hand_over(b) : nullptr;
        }
        if (captured || this->about_pages() || pages_.shared() == 0) { return nullptr; }
        return stitch(
            r, captured,
            [&] {
                offer(r);
                return heap_.take_bare(
                    r, held, [&](block const& one) { return by_price(one, r, captured, false); });
            },
            [&](block* b, auto const& target) { this->bring(r, r.on, b, target, 0, held); });
    }

private:
    using judged = typename block_heap::judged;

    /// Takes a block with `find()` and calls `equip(block, target)` to map memory to its pages,
    /// which are `target()`. Returns null if there is no block, if another thread is changing
    /// mappings, or if some page still lacks memory.
    template <class Find, class Equip>
    void* stitch(request const& r, bool captured, Find const& find, Equip const& equip) {
        block* const b = find();
        if (b == nullptr || this->about_pages()) {
            if (b != nullptr) { heap_.give_bare(b, nullptr, 0); }
            return nullptr;
        }
        stream const* const mover  = captured ? nullptr : r.on;
        auto const          target = [&] { return pages_.touched(b->address, b->end()); };
        auto const back = [&] { heap_.give_bare(b, mover, pages_.behind(b->address, b->end())); };
        try {
            typename base::page_turn const mine{*this};
            equip(b, target);
        } catch (...) {
            back();
            throw;
        }
        if (pages_.missing(target()) != 0) {
            back();
            return nullptr;
        }
        return this->hand_over(b);
    }
    /// Maps memory to the pages of a block: the memory that was there last, and as much memory of
    /// free pages as is needed to keep new memory for the rest within the slack.
    template <class Target>
    void share_pages(request const& r, block* b, Target const& target, guard& held) {
        page_book::run const all  = target();
        std::size_t const    page = pages_.page();
        std::size_t const    lack = pages_.missing(all);
        std::size_t const    back = lack - pages_.fresh(all);
        std::size_t const    more = excess(lack, r);
        if (more == 0 && back == 0) { return; }
        std::size_t const others = more > back ? more - back : 0;
        this->bring(r, r.on, b, target, (others + page - 1) / page, held);
    }
    [[nodiscard]] bool shares() const noexcept {
        return this->options_.slack < std::numeric_limits<double>::infinity();
    }
    /// Returns the number of bytes by which the slack would be exceeded with `fresh` bytes of new
    /// memory and the request live; at most `fresh`.
    [[nodiscard]] std::size_t excess(std::size_t fresh, request const& r) const noexcept {
        std::size_t const out   = saturating_add(heap_.live_bytes(), r.bytes);
        std::size_t const most  = out > heap_.most_live() ? out : heap_.most_live();
        double const      bound = (1 + this->options_.slack) * static_cast<double>(most);
        std::size_t const then  = saturating_add(this->budget_.usage.reserved, fresh);
        std::size_t const floor = this->options_.slack == 0 ? 0 : worthless();
        if (then <= floor || !(static_cast<double>(then) > bound)) { return 0; }
        // A program with a different request each time would need new addresses forever.
        std::size_t const addresses = heap_.blocks().reserved();
        if (addresses / most_addresses > most || addresses > device_) { return 0; }
        auto const        within = static_cast<std::size_t>(bound);
        std::size_t const over   = then - (within > floor ? within : floor);
        return over < fresh ? over : fresh;
    }
    /// Maximum of reserved addresses, as a multiple of the peak live bytes.
    static constexpr std::size_t most_addresses = 6;

    /// Returns the number of reserved bytes below which sharing pages is not worth it. (2.25 GiB:
    /// of the recorded traces, the one that reserves less takes three times as long with shared
    /// pages, and does not reserve less.)
    [[nodiscard]] std::size_t worthless() const noexcept {
        constexpr std::size_t most = std::size_t{9} << 28;
        return device_ / 32 < most ? device_ / 32 : most;
    }
    /// Returns the memory size of the request's device. Returns 0 if it is not needed, or if the
    /// query fails; no pages are then shared.
    [[nodiscard]] std::size_t device_of(request const& r) const noexcept {
        if (this->options_.remap || !shares()) { return 0; }
        try {
            return base::device_memory(r.on).total;
        } catch (...) { return 0; } // an allocation from the device reports the error
    }

    /// Returns a free block for the request, with or without memory. If there is none, grows a
    /// chunk at its end, by as much as the growth policy wants (`more`) or as needed. `until` is
    /// set to the end of the grown part if the block is the front of the free memory there, else it
    /// stays 0.
    block* bare_block(request const& r, bool captured, guard& held, bool more,
                      std::uintptr_t& until) {
        bool const remap = this->options_.remap;
        auto const judge = [&](block const& b) {
            return remap ? by_lack(b, r) : by_price(b, r, captured, true);
        };
        auto const offered = [&] {
            if (!remap && !captured) { offer(r); }
        };
        offered();
        if (block* const b = heap_.take_bare(r, held, judge)) { return b; }
        chunk_growth const m = heap_.begin_growth(r, [&](block const& tail) {
            return remap ? tail.address : behind_what_left(tail, captured);
        });
        if (m.base == nullptr) { return nullptr; }
        std::size_t const by = this->grow_chunk(r, m, more, held, [&](std::size_t n) {
            n = this->whole_pages(n);
            return this->upstream_.widen(m.base, m.bytes, n) ? n : 0;
        });
        try {
            pages_.widen(m.base, by);
        } catch (...) {
            held.unlock();
            this->upstream_.shrink(m.base, m.bytes + by, by);
            held.lock();
            heap_.end_growth(m, 0);
            throw;
        }
        heap_.end_growth(m, by);
        if (by == 0) { return nullptr; }
        offered(); // other threads changed mappings during the call
        block* const         b   = heap_.take_bare(r, held, judge);
        std::uintptr_t const end = reinterpret_cast<std::uintptr_t>(m.base) + m.bytes + by;
        // Another thread may have freed a better block during the call. There is always a block
        // behind `b`: a chunk ends with a free block, which may be empty.
        if (more && b != nullptr && b->after->end() == end) { until = end; }
        return b;
    }

    // Selection of a block

    /// Returns the first aligned place in a block. Its cost is the number of bytes without physical
    /// memory, so a place with more memory is better.
    [[nodiscard]] judged by_lack(block const& b, request const& r) const noexcept {
        std::uintptr_t const start = align(b.address, r.alignment);
        if (start > b.end() || b.end() - start < r.bytes) { return {}; }
        return {start, pages_.missing(pages_.touched(start, start + r.bytes))};
    }
    /// Rates the first place in a block at which every page has memory, or can get its previous
    /// memory back, or (`fresh`) can get new memory. Pages of the last kind cost most.
    [[nodiscard]] judged by_price(block const& b, request const& r, bool captured,
                                  bool fresh) const noexcept {
        std::uintptr_t start = align(b.address, r.alignment);
        while (start <= b.end() && b.end() - start >= r.bytes) {
            auto const           pages = pages_.touched(start, start + r.bytes);
            std::size_t          cost  = 0;
            std::uintptr_t const lost  = last_lost(pages, captured, fresh, cost);
            if (lost == 0) { return {start, cost}; }
            start = align(lost, r.alignment);
        }
        return {};
    }
    /// Returns the end of the last page of a run that cannot get memory, or 0. Adds the cost of the
    /// other pages to `cost`.
    std::uintptr_t last_lost(page_book::run const& pages, bool captured, bool fresh,
                             std::size_t& cost) const noexcept {
        std::uintptr_t lost = 0;
        pages_.for_each_missing(pages, [&](page_place const& one, bool left) {
            bool here = fresh;
            if (left) {
                auto const from = pages_.source_of(one, pages);
                here            = !captured && from.known && pages_.offered(from.where);
            }
            if (!here) {
                lost = reinterpret_cast<std::uintptr_t>(pages_.address(one)) + pages_.page();
            }
            cost += left ? 1 : new_page;
            return here;
        });
        return lost;
    }
    /// The cost of new memory for a page, in units of the cost of a page that gets its previous
    /// memory back.
    static constexpr std::size_t new_page = 64;

    /// Returns the lowest address in a block from which on every page can get physical memory.
    [[nodiscard]] std::uintptr_t behind_what_left(block const& b, bool captured) const noexcept {
        if (b.bytes == 0) { return b.address; }
        std::size_t          cost = 0;
        std::uintptr_t const lost =
            last_lost(pages_.touched(b.address, b.end()), captured, true, cost);
        std::uintptr_t const from = lost > b.address ? lost : b.address;
        return from < b.end() ? from : b.end();
    }
    /// Marks the pages of free blocks from which memory may return to its previous address, for the
    /// stream of the request.
    void offer(request const& r) {
        if (pages_.shared() == 0) { return; }
        pages_.withdraw();
        heap_.for_each_ready(r.bytes, pages_.page(), heap_.price_for(r.on), [&](block const* b) {
            pages_.offer(pages_.whole(b->address, b->end()));
        });
    }

    std::size_t device_ = 0; ///< memory size of the device that was queried last
};

} // namespace vram
