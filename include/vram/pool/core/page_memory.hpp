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

/// Maps physical memory to the pages of a pool over virtual memory, and updates the page table
/// `book`. Functions with a parameter `held` (a guard of the pool's lock) release the lock during
/// calls of the driver.
///
/// Failure   If the driver moves or unmaps only part of the pages, the page table is corrected.
/// Threads   Only the thread that owns a `page_turn` may change mappings.
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
            // A thread that holds counted locks stores its errors and reports them later. `turn_`
            // may be held for long, so it is not counted.
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
        // A page of `b` may also contain a part of a free neighbour. If all pages of the neighbour
        // have memory now, marks it as complete.
        for (block* beside : {b->before, b->after}) {
            if (beside == nullptr || !beside->unbacked || beside->bytes == 0) { continue; }
            if (!lacks(*beside)) { core.heap_.complete(beside); }
        }
        return core.heap_.filled(b);
    }
    [[nodiscard]] bool lacks(block const& b) const noexcept {
        return book.missing(book.touched(b.address, b.end())) != 0;
    }

    /// Maps new memory to the pages in the run that have none. Returns false if the pool's limit or
    /// the driver does not permit that.
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
        // Streams may still use moved memory through its old address, so new memory must not be
        // mapped there.
        return !book.left(all) && fill(core, all, held);
    }
    /// Moves the physical memory of the `bytes` at `from` to the addresses at `to`, which have
    /// none.
    template <class Core>
    void remap_run(Core& core, void* from, void* to, std::size_t bytes, guard& held) {
        move(core, from, bytes, to, bytes, bytes, held);
    }
    /// Moves physical memory from the `n` bytes at `from` to pages without memory in the `m` bytes
    /// at `to`. If the upstream does not move exactly `expected` bytes, corrects the page table.
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
    /// Queries the upstream to find out which pages have memory, and corrects the page table.
    /// Called if the upstream moved or unmapped more or fewer bytes than expected.
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
        // Subtracts the memory that these pages have lost from the reserved bytes. The page table
        // is correct only now.
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
    /// Reports the event `kind` to the observers for each page of the run that has physical memory
    /// (`mapped`), or for each page that has none. Stops after `bytes` bytes.
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
    /// Identifies the thread that is changing mappings, by the address of a thread-local variable
    /// of that thread. Null if no thread is changing mappings.
    unsigned const* mover_ = nullptr;
};

} // namespace detail
} // namespace vram
