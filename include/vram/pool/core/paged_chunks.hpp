// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `paged_chunks` lets a pool over virtual memory grow by mapping physical memory to addresses,
/// page by page.

#include <vram/base/align.hpp>
#include <vram/base/contract.hpp>       // expects
#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/concepts/growth.hpp>     // growth_request
#include <vram/concepts/observer.hpp>   // memory_event_kind
#include <vram/pool/core/block_request.hpp>
#include <vram/pool/core/chunk_sizes.hpp> // stepping_down
#include <vram/pool/core/page_mover.hpp>
#include <vram/pool/core/paged_heap.hpp>
#include <vram/pool/core/slack_limit.hpp>
#include <vram/pool/pool_options.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Maps and unmaps the memory of a pool over virtual memory page by page. The pool grows by
/// physical memory in a free block that lacks some, or behind the end of a chunk. With
/// `pool_options::remap` or `slack`, memory of other free pages may be used in place of new memory.
///
/// Failure   As the upstream.
/// Threads   One thread at a time changes mappings. Only `grow_in_place` takes the lock itself.
template <remappable_resource Upstream>
class paged_chunks {
public:
    using platform        = typename Upstream::platform;
    using stream          = typename platform::stream;
    using heap            = paged_heap<platform>;
    using guard           = typename heap::guard;
    using request         = typename heap::request;
    using chunk           = typename heap::chunk;
    using chunk_extension = typename heap::chunk_extension;

    /// False: before a pool over virtual memory grows, it does not return chunks without a live
    /// block to the upstream.
    static constexpr bool idle_chunks_make_room = false;

    paged_chunks(Upstream const& up, pool_options const& options) : pages_{up.page_size()} {
        expects(options.slack >= 0, "pool: `slack` must not be negative");
    }
    /// Gives the heap `to` the address of this object's page table. Must be called again after a
    /// move of this object or of the heap.
    void attach(heap& to) noexcept { to.know_memory(&pages_.book); }

    /// Returns the page size. Chunk sizes are multiples of the page size.
    [[nodiscard]] std::size_t unit() const noexcept { return pages_.book.page(); }
    /// Returns the size of a chunk for `bytes`, rounded up to whole pages.
    [[nodiscard]] std::size_t chunk_size(std::size_t bytes) const noexcept {
        return whole_pages(bytes);
    }
    /// Records a new chunk. All of its pages have physical memory.
    void add(void* base, std::size_t bytes) { pages_.book.add(base, bytes); }
    /// Removes a chunk from the page table. Returns how many bytes of the chunk have physical
    /// memory. Only these bytes count as reserved.
    std::size_t remove(chunk const& gone) noexcept { return pages_.book.remove(gone.base); }

    /// Maps memory in a free block or behind a chunk, and allocates `r` there. Returns null on
    /// failure. If `captured`, does not wait for streams. If `more`, may map more than `r` needs.
    template <class Core>
    void* grow_in_place(Core& core, request const& r, bool captured, bool more) {
        std::size_t const bytes = captured ? 0 : slack_limit::query_device(core, r);
        auto              held  = core.lock_.hold();
        if (pages_.changing_mappings()) { return nullptr; }
        slack_.set_device(bytes);
        bool const     remap = core.options_.remap && !captured;
        bool const     ample = !core.options_.remap && slack_.excess(core, r.bytes, r) == 0;
        std::uintptr_t until = 0;
        return back_block(
            core, r, captured,
            [&] { return unbacked_block(core, r, captured, held, more && ample, until); },
            [&](block* b, auto const& target) {
                // True if new memory may be mapped even to pages of `b` from which memory was moved
                // away.
                bool sure = false;
                if (remap) {
                    sure = pages_.find_pages(core, r, b, target, held);
                } else if (!captured) {
                    share_pages(core, r, b, target, held);
                }
                if (until > b->end() && pages_.fill_unmoved(core, b->address, until, held)) {
                    return;
                }
                if (sure && pages_.fill(core, target(), held)) { return; }
                if (!sure && pages_.fill_unmoved(core, b->address, b->end(), held)) { return; }
                // Maps memory of free pages if new memory could not be mapped. Done only if
                // `pool_options::slack` limits the reserved bytes that are not live.
                if (!remap && !captured && slack_limit::applies(core)) {
                    pages_.back_from_free(core, r, r.on, b, target, ~std::size_t{0}, held);
                }
            });
    }
    /// Allocates a small block in free memory of the chunks for large blocks, or returns null.
    /// Always returns null with `pool_options::remap`, because a live small block there would
    /// prevent moves of memory.
    template <class Core>
    void* take_in_hole(Core& core, request const& r) {
        return core.options_.remap ? nullptr : core.heap_.take_in_hole(r);
    }
    /// Allocates `r` in a free block without new memory. Returns null on failure. With
    /// `pool_options::remap`, all pages for `r` must have memory. Without it, pages may first get
    /// back memory that was moved to other pages.
    template <class Core>
    void* take_partly_backed(Core& core, request const& r, bool captured, guard& held) {
        if (core.options_.remap) {
            block* const b = core.heap_.take_unbacked(r, held, [&](block const& one) {
                judged const found = by_lack(one, r);
                return found.cost == 0 ? found : judged{};
            });
            return b != nullptr ? pages_.make_live(core, b) : nullptr;
        }
        if (captured || pages_.changing_mappings() || pages_.book.shared() == 0) { return nullptr; }
        return back_block(
            core, r, captured,
            [&] {
                offer(core, r);
                return core.heap_.take_unbacked(
                    r, held, [&](block const& one) { return by_price(one, r, captured, false); });
            },
            [&](block* b, auto const& target) {
                pages_.back_from_free(core, r, r.on, b, target, 0, held);
            });
    }
    /// Waits for another thread that is changing mappings. Returns false if there is none.
    bool await_others(guard& held) { return pages_.await_mappings(held); }
    /// Unmaps pages of free blocks that no stream uses, while more than `keep` free bytes are
    /// reserved. Returns the bytes unmapped.
    template <class Core>
    std::size_t trim_within(Core& core, std::size_t keep, guard& held) {
        std::size_t back = 0;
        auto const  own  = [&](block const& one) {
            return pages_.book.whole(one.address, one.end());
        };
        for (std::size_t bytes : {std::size_t{1}, bins::largest}) {
            while (core.unused() > keep) {
                if (pages_.await_mappings(held)) { continue; }
                if (pages_.changing_mappings()) { return back; }
                block* b = nullptr;
                core.heap_.set_aside(
                    bytes, core.heap_.price_for(nullptr),
                    [&](block const& one) { return pages_.book.mapped(own(one)) != 0; },
                    [&](block* one) {
                        b = one;
                        return false;
                    });
                if (b == nullptr) { break; }
                page_book::run const from     = pages_.book.back(own(*b), core.unused() - keep);
                std::size_t const    expected = pages_.book.mapped(from);
                void* const          at       = pages_.book.address(from);
                std::size_t const    n        = pages_.book.bytes(from);
                held.unlock();
                core.seen().notify(memory_event_kind::pages_unmapped, at, n);
                std::size_t const gone = core.upstream().drop(at, n);
                held.lock();
                ++core.budget_.usage.upstream;
                if (gone == expected) {
                    pages_.book.set(pages_.run_at(at, n), false);
                    core.budget_.release(gone);
                } else {
                    // More or fewer bytes than expected were unmapped: queries the upstream to
                    // correct the page table.
                    pages_.resync_page_table(core, {{at, n}}, held);
                }
                core.heap_.give_again(b, pages_.lacks(*b));
                back += gone;
                if (gone != expected) { break; }
            }
        }
        return back;
    }

    /// Returns how many bytes of a block have physical memory.
    [[nodiscard]] std::size_t resident(block const& b) const noexcept {
        bool const some = b.unbacked || b.now == block::state::cached;
        return some ? pages_.book.behind(b.address, b.end()) : b.bytes;
    }

private:
    using judged = block_heap::judged;

    [[nodiscard]] std::size_t whole_pages(std::size_t bytes) const noexcept {
        std::size_t const page  = unit();
        std::size_t const pages = bytes / page + (bytes % page != 0 ? 1 : 0);
        return pages > unsatisfiable / page ? unsatisfiable : pages * page;
    }
    [[nodiscard]] static void* end_of(chunk_extension const& m) noexcept {
        return static_cast<std::byte*>(m.base) + m.bytes;
    }
    /// Extends the chunk of the plan `m` by at least `m.by` bytes. Calls `widen(bytes)` for that,
    /// with the lock released. If `more`, first tries the size that the growth policy chooses.
    /// Returns the number of bytes added, or 0 on failure. Rethrows exceptions of the policy.
    template <class Core, class Widen>
    std::size_t grow_chunk(Core& core, request const& r, chunk_extension const& m, bool more,
                           guard& held, Widen widen) {
        growth_request const wish{.needed = m.by,
                                  .held   = core.heap_.blocks().of(r.bytes).chunks().reserved()};
        held.unlock();
        std::size_t by = 0;
        try {
            by = stepping_down(more ? core.growth_.wanted(core, r, wish) : m.by, m.by, widen);
        } catch (...) { // thrown by the growth policy, or by a query of the device's free memory
            held.lock();
            core.heap_.end_growth(m, 0);
            throw;
        }
        held.lock();
        return by;
    }
    /// Reserves a block with `find()`, and calls `equip(block, target)` to map memory to its pages,
    /// which `target()` returns. Makes the block live and returns its address. If some pages still
    /// lack memory, frees the block and returns null.
    template <class Core, class Find, class Equip>
    void* back_block(Core& core, request const& r, bool captured, Find const& find,
                     Equip const& equip) {
        block* const b = find();
        if (b == nullptr || pages_.changing_mappings()) {
            if (b != nullptr) { core.heap_.return_unbacked(b, nullptr, 0); }
            return nullptr;
        }
        stream const* const mover  = captured ? nullptr : r.on;
        auto const          target = [&] { return pages_.book.touched(b->address, b->end()); };
        auto const          back   = [&] {
            core.heap_.return_unbacked(b, mover, pages_.book.behind(b->address, b->end()));
        };
        try {
            typename page_mover<platform>::page_turn const mine{pages_};
            equip(b, target);
        } catch (...) {
            back();
            throw;
        }
        if (pages_.book.missing(target()) != 0) {
            back();
            return nullptr;
        }
        return pages_.make_live(core, b);
    }
    /// Gives pages of `b` back the memory that was moved away from them. If new memory would exceed
    /// `pool_options::slack` (a limit on reserved bytes that are not live), other pages of `b` get
    /// memory of any free pages.
    template <class Core, class Target>
    void share_pages(Core& core, request const& r, block* b, Target const& target, guard& held) {
        page_book::run const all  = target();
        std::size_t const    page = pages_.book.page();
        std::size_t const    lack = pages_.book.missing(all);
        std::size_t const    back = lack - pages_.book.fresh(all);
        std::size_t const    more = slack_.excess(core, lack, r);
        if (more == 0 && back == 0) { return; }
        std::size_t const others = more > back ? more - back : 0;
        pages_.back_from_free(core, r, r.on, b, target, (others + page - 1) / page, held);
    }
    /// Reserves a free block for `r`. Pages of the block may lack memory. If there is no such
    /// block, extends a chunk, by more than needed if `more`. If the caller should map memory up to
    /// the end of that chunk, stores its address in `until`. Returns null on failure.
    template <class Core>
    block* unbacked_block(Core& core, request const& r, bool captured, guard& held, bool more,
                          std::uintptr_t& until) {
        bool const remap = core.options_.remap;
        auto const judge = [&](block const& b) {
            return remap ? by_lack(b, r) : by_price(b, r, captured, true);
        };
        auto const offered = [&] {
            if (!remap && !captured) { offer(core, r); }
        };
        offered();
        if (block* const b = core.heap_.take_unbacked(r, held, judge)) { return b; }
        chunk_extension const m = core.heap_.begin_growth(r, [&](block const& tail) {
            return remap ? tail.address : behind_moved_memory(tail, captured);
        });
        if (m.base == nullptr) { return nullptr; }
        std::size_t const by = grow_chunk(core, r, m, more, held, [&](std::size_t n) {
            n = whole_pages(n);
            if (!core.upstream().widen(m.base, m.bytes, n)) { return std::size_t{0}; }
            core.seen().notify(memory_event_kind::chunk_added, end_of(m), n);
            return n;
        });
        try {
            pages_.book.widen(m.base, by);
        } catch (...) {
            held.unlock();
            core.seen().notify(memory_event_kind::chunk_removed, end_of(m), by);
            core.upstream().shrink(m.base, m.bytes + by, by);
            held.lock();
            core.heap_.end_growth(m, 0);
            throw;
        }
        core.heap_.end_growth(m, by);
        if (by == 0) { return nullptr; }
        // Other threads may have changed the mappings while the lock was released.
        offered();
        block* const         b   = core.heap_.take_unbacked(r, held, judge);
        std::uintptr_t const end = reinterpret_cast<std::uintptr_t>(m.base) + m.bytes + by;
        // The last block of a chunk is always free. If only this block follows `b`, the caller maps
        // memory up to the end of the chunk.
        if (more && b != nullptr && b->after->end() == end) { until = end; }
        return b;
    }

    /// Returns the first aligned place for the request in `b`. Its cost is the total size of the
    /// pages there that lack memory. Returns an empty result if `b` is too short.
    [[nodiscard]] judged by_lack(block const& b, request const& r) const noexcept {
        std::uintptr_t const start = align(b.address, r.alignment);
        if (start > b.end() || b.end() - start < r.bytes) { return {}; }
        return {start, pages_.book.missing(pages_.book.touched(start, start + r.bytes))};
    }
    /// Returns the first place in `b` where all pages for the request have memory or can get it,
    /// and the cost (see `new_page`). A page can get back memory that was moved away from it, if
    /// `offer` has marked the page that has this memory now and `captured` is false. A page from
    /// which no memory was moved away can get new memory if `fresh` is true. Returns an empty
    /// result if there is no such place.
    [[nodiscard]] judged by_price(block const& b, request const& r, bool captured,
                                  bool fresh) const noexcept {
        std::uintptr_t start = align(b.address, r.alignment);
        while (start <= b.end() && b.end() - start >= r.bytes) {
            auto const           pages = pages_.book.touched(start, start + r.bytes);
            std::size_t          cost  = 0;
            std::uintptr_t const lost  = last_lost(pages, captured, fresh, cost);
            if (lost == 0) { return {start, cost}; }
            start = align(lost, r.alignment);
        }
        return {};
    }
    /// Finds the last page in the run that has no memory and cannot get any. Returns the end of
    /// that page, or 0 if there is none. Adds the cost of the examined pages to `cost`.
    std::uintptr_t last_lost(page_book::run const& pages, bool captured, bool fresh,
                             std::size_t& cost) const noexcept {
        std::uintptr_t lost = 0;
        pages_.book.for_each_missing(pages, [&](page_place const& one, bool left) {
            bool here = fresh;
            if (left) {
                auto const from = pages_.book.source_of(one, pages);
                here            = !captured && from.known && pages_.book.offered(from.where);
            }
            if (!here) {
                lost =
                    reinterpret_cast<std::uintptr_t>(pages_.book.address(one)) + pages_.book.page();
            }
            cost += left ? 1 : new_page;
            return here;
        });
        return lost;
    }
    /// Cost of a page that needs new memory, used to compare places for a request. A page that gets
    /// back memory that was moved away from it has a cost of 1.
    static constexpr std::size_t new_page = 64;

    /// Searches `b` for the last page from which memory was moved away and cannot be moved back
    /// now. Returns the end of this page. If there is no such page, returns the start of `b`.
    [[nodiscard]] std::uintptr_t behind_moved_memory(block const& b, bool captured) const noexcept {
        if (b.bytes == 0) { return b.address; }
        std::size_t          cost = 0;
        std::uintptr_t const lost =
            last_lost(pages_.book.touched(b.address, b.end()), captured, true, cost);
        std::uintptr_t const from = lost > b.address ? lost : b.address;
        return from < b.end() ? from : b.end();
    }
    /// Marks the pages of free blocks that the stream of `r` may use without a wait. `by_price`
    /// treats the memory of a page as movable only if the page is marked.
    template <class Core>
    void offer(Core& core, request const& r) {
        if (pages_.book.shared() == 0) { return; }
        pages_.book.withdraw();
        core.heap_.for_each_ready(
            r.bytes, pages_.book.page(), core.heap_.price_for(r.on),
            [&](block const* b) { pages_.book.offer(pages_.book.whole(b->address, b->end())); });
    }

    page_mover<platform> pages_;
    slack_limit          slack_;
};

} // namespace detail
} // namespace vram
