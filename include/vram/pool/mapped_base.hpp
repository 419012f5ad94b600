// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `mapped_base` is the part of a pool that maps physical memory to its pages and unmaps it.

#include <vram/base/error.hpp>          // locks_held, held_one, let_one_go
#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/concepts/sited.hpp>      // sited
#include <vram/pool/page_book.hpp>      // page_book
#include <vram/pool/pool_base.hpp>      // pool_base

#include <concepts>         // assignable_from
#include <cstddef>          // size_t, byte
#include <cstdint>          // uintptr_t
#include <initializer_list> // initializer_list
#include <utility>          // move

namespace vram {

/// A chunk is a range of addresses. Free blocks in it may lack physical memory.
///
/// Failure   If the driver completes a call only partly, it counts as not done, so that a page
///           without memory is never allocated.
/// Threads   Any number of threads may call concurrently. One thread at a time changes mappings
///           (`page_turn`).
/// Cost      The calls of the upstream.
template <remappable_resource Upstream, growth Growth>
class mapped_base : public pool_base<Upstream, Growth, true> {
    using base = pool_base<Upstream, Growth, true>;

protected:
    using typename base::chunk;
    using typename base::guard;
    using typename base::request;
    using chunk_growth = block_heap::chunk_growth;
    using base::heap_;
    using base::unused;

    mapped_base(Upstream upstream, pool_options const& options, Growth growth)
        : base{std::move(upstream), options, std::move(growth)},
          pages_{this->upstream_.page_size()} {
        heap_.know_memory(&pages_);
    }
    mapped_base(mapped_base&& other) noexcept
        : base{std::move(other)}, pages_{std::move(other.pages_)} {
        heap_.know_memory(&pages_);
    }
    mapped_base& operator=(mapped_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        pages_ = std::move(other.pages_);
        return *this;
    }
    ~mapped_base() = default;

    /// The exclusive right of the calling thread to change mappings. The pool's lock is held at
    /// construction and destruction, and may be released in between. An allocation that would be
    /// refused waits for the holder first (`await_pages`).
    class page_turn {
    public:
        explicit page_turn(mapped_base& owner) : owner_{owner}, held_{owner.turn_.hold()} {
            // Neither error reports nor other threads wait for the end of this lock.
            (void)detail::let_one_go();
            owner.mover_ = &detail::locks_held;
        }
        page_turn(page_turn const&)            = delete;
        page_turn& operator=(page_turn const&) = delete;
        ~page_turn() {
            owner_.mover_ = nullptr;
            detail::held_one();
        }

    private:
        mapped_base& owner_;
        guard        held_;
    };
    [[nodiscard]] bool about_pages() const noexcept { return mover_ != nullptr; }
    /// Waits until another thread that changes mappings has finished. Returns false if there is
    /// none.
    bool await_pages(guard& held) {
        if (mover_ == nullptr || mover_ == &detail::locks_held) { return false; }
        held.unlock();
        { auto const until_then = turn_.hold(); }
        held.lock();
        return true;
    }

    /// Makes a block live after memory was mapped to all of its pages. Neighbours on the same pages
    /// may now be fully backed as well.
    void* hand_over(block* b) noexcept {
        for (block* beside : {b->before, b->after}) {
            if (beside == nullptr || !beside->bare || beside->bytes == 0) { continue; }
            if (!lacks(*beside)) { heap_.complete(beside); }
        }
        return heap_.filled(b);
    }
    [[nodiscard]] bool lacks(block const& b) const noexcept {
        return pages_.missing(pages_.touched(b.address, b.end())) != 0;
    }

    /// Maps new memory to all pages of a run that have none. Returns false and changes nothing if
    /// that fails.
    bool fill(page_book::run const& pages, guard& held) {
        std::size_t const need = pages_.missing(pages);
        if (need == 0) { return true; }
        void* const       at    = pages_.address(pages);
        std::size_t const bytes = pages_.bytes(pages);
        held.unlock();
        bool filled = false;
        {
            chunk_budget::claim mine{this->budget_, this->lock_, need};
            if (mine.granted() && this->upstream_.fill(at, bytes)) {
                held.lock();
                ++this->budget_.usage.upstream;
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
    /// Maps new memory to the pages of a range that have none. Returns false if memory of such a
    /// page moved elsewhere: streams may still use it through this address, so no other memory may
    /// be mapped there.
    bool fill_unleft(std::uintptr_t from, std::uintptr_t to, guard& held) {
        auto const all = pages_.touched(from, to);
        return !pages_.left(all) && fill(all, held);
    }
    /// Remaps the memory of the `bytes` at `from` to `to`. All pages of the first range have
    /// memory, the others have none.
    void carry(void* from, void* to, std::size_t bytes, guard& held) {
        move(from, bytes, to, bytes, bytes, held);
    }
    /// Remaps memory from pages of one range to pages of another that have none. `expected` is the
    /// number of bytes that should move according to the page table.
    void move(void* from, std::size_t n, void* to, std::size_t m, std::size_t expected,
              guard& held) {
        held.unlock();
        std::size_t const went = this->upstream_.remap(from, n, to, m);
        held.lock();
        ++this->budget_.usage.upstream;
        if (went == expected) {
            pages_.move(run_at(from, n), run_at(to, m), went);
        } else {
            resync_page_table({{from, n}, {to, m}}, held);
        }
    }
    struct range {
        void*       at;
        std::size_t bytes;
    };
    /// Queries the driver page by page after a call had an unexpected result, and corrects the page
    /// table. The reserved bytes are corrected at the end, so that other threads do not see free
    /// room within the limit in between.
    void resync_page_table(std::initializer_list<range> all, guard& held) {
        auto const behind_all = [&] {
            std::size_t sum = 0;
            for (range const& r : all) { sum += pages_.mapped(run_at(r.at, r.bytes)); }
            return sum;
        };
        std::size_t const page     = pages_.page();
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
            bool const there = this->upstream_.mapped(p, page) != 0;
            held.lock();
            pages_.look(page_at(p), there);
        });
        for_each([&](void* p) {
            held.unlock();
            void* const went = this->upstream_.moved_to(p);
            held.lock();
            if (went != nullptr) { pages_.find(page_at(p), went); }
        });
        this->budget_.release(had - behind_all());
    }
    [[nodiscard]] page_book::run run_at(void const* p, std::size_t bytes) const noexcept {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        return pages_.touched(at, at + bytes);
    }

    [[nodiscard]] page_place page_at(void const* p) const noexcept {
        page_book::run const one = run_at(p, 1);
        return {one.chunk, one.first};
    }

    /// Unmaps pages of free blocks until at most `keep` free bytes are reserved.
    std::size_t give_parts_back(std::size_t keep, guard& held) {
        std::size_t back = 0;
        auto const  own  = [&](block const& one) { return pages_.whole(one.address, one.end()); };
        for (std::size_t bytes : {std::size_t{1}, bins::largest}) {
            while (unused() > keep) {
                if (await_pages(held)) { continue; }
                if (about_pages()) { return back; }
                block* b = nullptr;
                heap_.set_aside(
                    bytes, heap_.price_for(nullptr),
                    [&](block const& one) { return pages_.mapped(own(one)) != 0; },
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
                ++this->budget_.usage.upstream;
                if (gone == expected) {
                    pages_.set(run_at(at, n), false);
                    this->budget_.release(gone);
                } else {
                    resync_page_table({{at, n}}, held); // some pages were not unmapped
                }
                heap_.give_again(b, lacks(*b));
                back += gone;
                if (gone != expected) { break; }
            }
        }
        return back;
    }

    /// Returns the size of the next chunk, or the growth of a chunk, in whole pages: see
    /// `pool_base`.
    [[nodiscard]] std::size_t wanted(request const& r, growth_request const& wish) const {
        return base::wanted(r, wish, this->upstream_.page_size());
    }
    void* take_in_hole(request const& r) { return heap_.take_in_hole(r); }

    /// Calls `widen(bytes)`, which returns the number of bytes by which the chunk grew, for the
    /// size that the growth policy wants (`more`), or else for `m.by` bytes. Releases the lock
    /// during the calls. Exceptions are rethrown, and the chunk is unchanged then.
    template <class Widen>
    std::size_t grow_chunk(request const& r, chunk_growth const& m, bool more, guard& held,
                           Widen widen) {
        growth_request const wish{.needed = m.by,
                                  .held   = heap_.blocks().of(r.bytes).chunks().reserved()};
        held.unlock();
        std::size_t by = 0;
        try {
            by = base::stepping_down(more ? wanted(r, wish) : m.by, m.by, widen);
        } catch (...) { // the policy, or the question for the free memory of the device
            held.lock();
            heap_.end_growth(m, 0);
            throw;
        }
        held.lock();
        return by;
    }
    [[nodiscard]] std::size_t whole_pages(std::size_t bytes) const noexcept {
        std::size_t const page  = this->upstream_.page_size();
        std::size_t const pages = bytes / page + (bytes % page != 0 ? 1 : 0);
        return pages > unsatisfiable / page ? unsatisfiable : pages * page;
    }
    /// All pages of a new chunk have physical memory.
    template <bool Throwing>
    void* new_chunk(request const& r, std::size_t size, request const* out) {
        return this->template take_chunk<Throwing>(r, whole_pages(size), out, pages_);
    }
    /// Returns the bytes of a block that have physical memory. The page table is used for a bare
    /// block, and for one that is set aside, because its pages are unmapped one by one.
    [[nodiscard]] std::size_t behind(block const& b) const noexcept {
        bool const some = b.bare || b.now == block::state::cached;
        return some ? pages_.behind(b.address, b.end()) : b.bytes;
    }
    static void make_way(std::size_t) noexcept {} // pages are unmapped one by one instead
    bool        give_chunk_back(chunk const& gone, guard& held, std::size_t& back) {
        if (gone.bytes == 0) { return false; }
        // `max_size` limits physical memory, not addresses.
        std::size_t const real = pages_.remove(gone.base);
        back += real;
        this->budget_.give_back(real, held, [&] {
            sited{this->upstream_}.deallocate_sync(gone.base, gone.bytes, gone.alignment);
        });
        return true;
    }

    page_book pages_;

private:
    typename base::lock turn_; ///< held by the thread that changes mappings
    /// The thread that changes mappings, identified by the address of a thread-local variable; else
    /// null.
    unsigned const* mover_ = nullptr;
};

} // namespace vram
