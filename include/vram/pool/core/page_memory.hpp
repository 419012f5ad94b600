// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_memory` is the page table of a pool over virtual memory, with the calls that change it.

#include <vram/base/error.hpp> // locks_held, count_lock, uncount_lock
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/pool/core/block.hpp>
#include <vram/pool/core/chunk_budget.hpp>
#include <vram/pool/core/page_book.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list> // initializer_list
#include <utility>

namespace vram {
namespace detail {

/// Maps physical memory to the pages of a pool over virtual memory, and keeps the page table
/// `book`. Functions with the pool's lock as parameter `held` release it during calls of the
/// driver.
///
/// Failure   If the driver moves or unmaps only part of the pages, the table is corrected.
/// Threads   One thread at a time changes mappings: the owner of a `page_turn`.
template <class Platform>
class page_memory {
public:
    using lock  = platform_lock<Platform>;
    using guard = typename lock::guard;

    explicit page_memory(std::size_t page) noexcept : book{page} {}
    page_memory(page_memory&& other) noexcept : book{std::move(other.book)} {}
    page_memory& operator=(page_memory&& other) noexcept {
        book = std::move(other.book);
        return *this;
    }
    ~page_memory() = default;

    page_book book; ///< table of the pages that have physical memory

    /// The right of one thread to change mappings of pages. The pool's lock must be held at
    /// creation and destruction.
    class page_turn {
    public:
        explicit page_turn(page_memory& owner) : owner_{owner}, held_{owner.turn_.hold()} {
            // Does not count `turn_` as a lock that this thread holds: errors would be reported
            // only after its release.
            (void)detail::uncount_lock();
            owner.mover_ = &detail::locks_held;
        }
        page_turn(page_turn const&)            = delete;
        page_turn& operator=(page_turn const&) = delete;
        ~page_turn() {
            owner_.mover_ = nullptr;
            detail::count_lock();
        }

    private:
        page_memory& owner_;
        guard        held_;
    };
    /// Returns true if a thread, perhaps the calling one, is changing mappings. The pool's lock
    /// must be held.
    [[nodiscard]] bool changing_mappings() const noexcept { return mover_ != nullptr; }
    /// Waits for another thread that is changing mappings, with the lock `held` released. Returns
    /// false if there is none.
    bool await_mappings(guard& held) {
        if (mover_ == nullptr || mover_ == &detail::locks_held) { return false; }
        held.unlock();
        { auto const until_then = turn_.hold(); }
        held.lock();
        return true;
    }

    /// Makes a block live after memory was mapped to all of its pages, and returns its address.
    template <class Core>
    void* make_live(Core& core, block* b) noexcept {
        // A free neighbour that shares a page with this block may now have all its physical memory:
        // records that.
        for (block* beside : {b->before, b->after}) {
            if (beside == nullptr || !beside->unbacked || beside->bytes == 0) { continue; }
            if (!lacks(*beside)) { core.heap_.complete(beside); }
        }
        return core.heap_.filled(b);
    }
    [[nodiscard]] bool lacks(block const& b) const noexcept {
        return book.missing(book.touched(b.address, b.end())) != 0;
    }

    /// Maps new memory to the pages in the run that have none. Returns false if the limit or the
    /// driver refuses the memory.
    template <class Core>
    bool fill(Core& core, page_book::run const& pages, guard& held) {
        std::size_t const need = book.missing(pages);
        if (need == 0) { return true; }
        void* const       at    = book.address(pages);
        std::size_t const bytes = book.bytes(pages);
        held.unlock();
        bool filled = false;
        {
            chunk_budget::claim mine{core.budget_, core.lock_, need};
            if (mine.granted() && core.upstream().fill(at, bytes)) {
                core.seen().notify(memory_event_kind::pages_mapped, at, bytes);
                held.lock();
                ++core.budget_.usage.upstream;
                mine.keep();
                filled = true;
            }
        }
        if (!filled) {
            held.lock();
            return false;
        }
        book.set(run_at(at, bytes), true);
        return true;
    }
    /// Maps new memory to the pages overlapping [from, to) that lack memory. Returns false, and
    /// maps none, if memory of one of the pages was moved elsewhere, or if new memory is refused.
    template <class Core>
    bool fill_unmoved(Core& core, std::uintptr_t from, std::uintptr_t to, guard& held) {
        auto const all = book.touched(from, to);
        // Pages whose memory was moved away (`left`) get no other memory: streams may still use the
        // old memory through these addresses.
        return !book.left(all) && fill(core, all, held);
    }
    /// Moves the physical memory of the `bytes` at `from` to the addresses at `to`, which have
    /// none.
    template <class Core>
    void remap_run(Core& core, void* from, void* to, std::size_t bytes, guard& held) {
        move(core, from, bytes, to, bytes, bytes, held);
    }
    /// Moves physical memory from the `n` bytes at `from` to pages without memory in the `m` bytes
    /// at `to`. If it is not `expected` bytes, corrects the page table.
    template <class Core>
    void move(Core& core, void* from, std::size_t n, void* to, std::size_t m, std::size_t expected,
              guard& held) {
        auto const seen = core.seen();
        notify_pages(seen, memory_event_kind::pages_unmapped, run_at(from, n), true, expected);
        held.unlock();
        std::size_t const went = core.upstream().remap(from, n, to, m);
        held.lock();
        notify_pages(seen, memory_event_kind::pages_mapped, run_at(to, m), false, went);
        ++core.budget_.usage.upstream;
        if (went == expected) {
            book.move(run_at(from, n), run_at(to, m), went);
        } else {
            resync_page_table(core, {{from, n}, {to, m}}, held);
        }
    }
    struct range {
        void*       at;
        std::size_t bytes;
    };
    /// Asks the upstream which pages have memory, and corrects the page table. Needed if the
    /// upstream moved or unmapped more or fewer bytes than expected.
    template <class Core>
    void resync_page_table(Core& core, std::initializer_list<range> all, guard& held) {
        auto const behind_all = [&] {
            std::size_t sum = 0;
            for (range const& r : all) { sum += book.mapped(run_at(r.at, r.bytes)); }
            return sum;
        };
        std::size_t const page     = book.page();
        auto const        for_each = [&](auto const& look) {
            for (range const& r : all) {
                for (std::size_t done = 0; done != r.bytes; done += page) {
                    look(static_cast<std::byte*>(r.at) + done);
                }
            }
        };
        std::size_t const had = behind_all();
        for_each([&](void* p) {
            held.unlock();
            bool const there = core.upstream().mapped(p, page) != 0;
            core.seen().notify(there ? memory_event_kind::pages_mapped
                                     : memory_event_kind::pages_unmapped,
                               p, page);
            held.lock();
            book.look(page_at(p), there);
        });
        for_each([&](void* p) {
            held.unlock();
            void* const went = core.upstream().moved_to(p);
            held.lock();
            if (went != nullptr) { book.find(page_at(p), went); }
        });
        // Subtracts the lost memory only now, when the table is correct; until then, it counts
        // against the limit.
        core.budget_.release(had - behind_all());
    }
    [[nodiscard]] page_book::run run_at(void const* p, std::size_t bytes) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        return book.touched(at, at + bytes);
    }

    [[nodiscard]] page_place page_at(void const* p) const noexcept {
        page_book::run const one = run_at(p, 1);
        return {one.chunk, one.first};
    }

private:
    /// Reports the event `kind` to observers for pages of the run that have physical memory
    /// (`mapped`) or lack it (not `mapped`), for the first `bytes` of them.
    template <class Seen>
    void notify_pages(Seen const& seen, memory_event_kind kind, page_book::run run, bool mapped,
                      std::size_t bytes) const noexcept {
        if constexpr (Seen::on) {
            for (; run.first != run.last && bytes != 0; ++run.first) {
                page_place const one{run.chunk, run.first};
                if (book.has(one) != mapped) { continue; }
                seen.notify(kind, book.address(one), book.page());
                bytes -= bytes < book.page() ? bytes : book.page();
            }
        }
    }

    /// Held by the thread that changes mappings, also while that thread has released the pool's
    /// lock.
    lock turn_;
    /// Address of a thread-local variable of the thread that is changing mappings, to identify that
    /// thread. Null if there is none.
    unsigned const* mover_ = nullptr;
};

} // namespace detail
} // namespace vram
