// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `event_ring` is a bounded store of records of a fixed number of words, written by many threads.

#include <vram/base/core/thread_number.hpp>

#include <algorithm> // clamp, max
#include <atomic>    // atomic
#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr
#include <mutex>  // mutex, lock_guard
#include <new>    // bad_alloc, nothrow
#include <vector> // vector

namespace vram {
namespace detail {

/// A ring of records, each of which has `width` words of 64 bits. The first word must be the time.
/// Keeps at least the last `capacity` records if there is enough host memory. The records lie in
/// pages. A thread that has filled its page takes an unused page. If no page is unused, the thread
/// takes the page that became full first, and overwrites its records. Any thread may call any
/// function.
///
///     event_ring ring{1 << 18, 2};
///     ring.append(thread_number(), [&](event_ring::place to) {
///         to.store(0, time);
///         to.store(1, bytes);
///     });
class event_ring {
    using word = std::atomic<std::uint64_t>;

public:
    event_ring(std::size_t capacity, std::size_t width)
        : width_{width},
          page_records_{static_cast<std::uint32_t>(
              std::clamp(capacity / 16, std::size_t{8}, std::size_t{256}))},
          // Besides the pages for `capacity` records, each writer (an element of `first_`, or
          // `last_`) needs one page, because the page that a writer fills may be almost empty.
          pages_(pages_for(capacity) + most_first + 1) {
        add_unused(pages_.data(), pages_.size());
    }
    event_ring(event_ring const&)            = delete;
    event_ring& operator=(event_ring const&) = delete;

    [[nodiscard]] std::size_t width() const noexcept { return width_; }

    /// Stores a record. `number`: number of the calling thread, from `thread_number()`. `fill(to)`
    /// must call `to.store(index, word)` for each word of the record.
    template <class Fill>
    [[gnu::always_inline]] void append(unsigned number, Fill const& fill) noexcept {
        if (has_own_place(number)) [[likely]] {
            put(first_[number], fill);
        } else {
            put_by_other(number, fill);
        }
    }

    /// Returns true for the thread numbers below 64. For these, `append` is fastest: their write
    /// positions are elements of an array.
    [[nodiscard]] static constexpr bool has_own_place(unsigned number) noexcept {
        return number < most_first;
    }

    /// The memory of one record, to which the function `fill` of `append` writes the words. A word
    /// that `fill` does not store has an arbitrary value.
    class place {
    public:
        [[gnu::always_inline]] void store(std::size_t index, std::uint64_t value) const noexcept {
            at_[index].store(value, std::memory_order_release);
        }

    private:
        friend event_ring;
        explicit place(word* at) noexcept : at_{at} {}
        word* at_;
    };

    /// Calls `take(words)` for each stored record. `words` points to a copy of the record's words,
    /// which is valid until `take` returns. Leaves out a page that a thread begins to overwrite
    /// during the copy.
    template <class Take>
    void read(Take const& take) const {
        std::vector<std::uint64_t> copy(width_ * page_records_);
        for_each_page([&](page const& each) {
            word const* const from = each.words.load(std::memory_order_acquire);
            if (from == nullptr) { return; }
            std::uint64_t const lap   = each.lap.load(std::memory_order_acquire);
            std::uint32_t const count = page_records_ - each.left.load(std::memory_order_acquire);
            for (std::size_t i = 0; i != count * width_; ++i) {
                copy[i] = from[i].load(std::memory_order_acquire);
            }
            // If `lap` has changed, a thread has begun to overwrite the page. The copy may then mix
            // old and new records, so it is not used.
            if (each.lap.load(std::memory_order_acquire) != lap) { return; }
            for (std::size_t i = 0; i != count; ++i) { take(copy.data() + i * width_); }
        });
    }

    /// Returns the time of the latest overwritten record, or 0 if no record was overwritten. An
    /// earlier `read` may lack some of the records that are older than this time.
    [[nodiscard]] std::uint64_t horizon() const noexcept {
        return horizon_.load(std::memory_order_acquire);
    }
    /// Returns the number of records that were overwritten, or for which there was no memory.
    [[nodiscard]] std::uint64_t overwritten() const noexcept {
        return overwritten_.load(std::memory_order_relaxed);
    }
    /// Returns the number of records appended so far, including those that were overwritten, and
    /// those for which there was no host memory.
    [[nodiscard]] std::uint64_t appended() const noexcept {
        std::uint64_t sum = overwritten();
        for_each_page([&](page const& each) {
            if (each.words.load(std::memory_order_acquire) == nullptr) { return; }
            sum += page_records_ - each.left.load(std::memory_order_relaxed);
        });
        return sum;
    }

private:
    static constexpr unsigned most_first = 64;

    struct page {
        /// Number of times that threads have taken this page. A thread increments this number
        /// before it overwrites the records, so that `read` notices the change.
        std::atomic<std::uint64_t> lap{0};
        /// Number of records that can still be written to the page; also 0 before its first use.
        std::atomic<std::uint32_t> left{0};
        /// The next page in the list of full pages (`oldest_`) or of unused pages (`unused_`), or
        /// null. Guarded by `mutex_`.
        page*                   later = nullptr;
        std::atomic<word*>      words{nullptr};
        std::unique_ptr<word[]> owner;
    };
    /// The write position for the records of one thread number. Needs no lock: a number below
    /// `most_thread_numbers` belongs to one thread at a time.
    struct alignas(64) writer {
        word*         at   = nullptr;
        page*         into = nullptr;
        std::uint32_t left = 0; ///< number of further records for which the page `into` has room
    };
    /// The writers of 64 thread numbers, and 64 additional pages for the ring, because each of
    /// these writers may hold a partly filled page.
    struct group {
        writer writers[most_first];
        page   pages[most_first];
    };

    /// Returns the number of pages of `capacity` records. If so many records would not fit in the
    /// address space, throws `std::bad_alloc`.
    [[nodiscard]] std::size_t pages_for(std::size_t capacity) const {
        if (capacity > ~std::size_t{0} / (width_ * sizeof(word))) { throw std::bad_alloc{}; }
        return (capacity + page_records_ - 1) / page_records_;
    }
    template <class Visit>
    void for_each_page(Visit const& visit) const {
        for (page const& each : pages_) { visit(each); }
        for (auto const& made : others_) {
            if (group const* const g = made.load(std::memory_order_acquire)) {
                for (page const& each : g->pages) { visit(each); }
            }
        }
    }

    template <class Fill>
    [[gnu::always_inline]] void put(writer& w, Fill const& fill) noexcept {
        if (w.left == 0) [[unlikely]] {
            if (!next(w)) { return; }
        }
        fill(place{w.at});
        w.at += width_;
        w.into->left.store(--w.left, std::memory_order_release);
    }
    template <class Fill>
    [[gnu::noinline]] void put_by_other(unsigned number, Fill const& fill) noexcept {
        if (number < most_thread_numbers) {
            if (group* const own = others(number / most_first - 1)) {
                return put(own->writers[number % most_first], fill);
            }
        }
        std::lock_guard const held{last_lock_}; // all other threads share the writer `last_`
        put(last_, fill);
    }
    /// Returns the group of the 64 writers for the thread numbers from 64 * (`index` + 1) on.
    /// Allocates the group at its first use. Returns null if there is no host memory.
    [[gnu::noinline]] group* others(unsigned index) noexcept {
        if (group* const made = others_[index].load(std::memory_order_acquire)) { return made; }
        std::lock_guard const held{mutex_};
        if (owners_[index] == nullptr) {
            owners_[index].reset(new (std::nothrow) group);
            if (owners_[index] == nullptr) { return nullptr; }
            add_unused(owners_[index]->pages, most_first);
            others_[index].store(owners_[index].get(), std::memory_order_release);
        }
        return owners_[index].get();
    }
    void add_unused(page* first, std::size_t count) noexcept {
        while (count-- > 0) {
            first[count].later = unused_;
            unused_            = &first[count];
        }
    }

    /// Gives the writer `w` a new page: an unused page, or the page that became full first. Returns
    /// false if there is no such page.
    [[gnu::noinline, gnu::cold]] bool next(writer& w) noexcept {
        std::lock_guard const held{mutex_};
        if (w.into != nullptr) {
            (oldest_ == nullptr ? oldest_ : newest_->later) = w.into;
            newest_                                         = w.into;
            w.into                                          = nullptr;
        }
        page* const fresh = take_unused();
        page* const taken = fresh != nullptr ? fresh : oldest_;
        if (taken == nullptr) {
            overwritten_.fetch_add(1, std::memory_order_relaxed);
            return false;
        }
        page& found = *taken;
        if (fresh == nullptr) {
            oldest_     = found.later;
            found.later = nullptr;
            overwritten_.fetch_add(page_records_, std::memory_order_relaxed);
            std::uint64_t const last =
                found.owner[(page_records_ - 1) * width_].load(std::memory_order_relaxed);
            horizon_.store(std::max(horizon(), last), std::memory_order_release);
        }
        found.left.store(page_records_, std::memory_order_release);
        // Announces that the page will be overwritten. A `read` that copies a new word also sees
        // the new `lap`, because each word is stored with release order.
        found.lap.fetch_add(1, std::memory_order_release);
        found.words.store(found.owner.get(), std::memory_order_release);
        w.into = &found;
        w.at   = found.owner.get();
        w.left = page_records_;
        return true;
    }
    /// Takes a page from the unused ones and allocates the memory of its records. Returns null if
    /// no page is unused or there is no host memory.
    page* take_unused() noexcept {
        page* const found = unused_;
        if (found == nullptr) { return nullptr; }
        found->owner.reset(new (std::nothrow) word[width_ * page_records_]);
        if (found->owner == nullptr) { return nullptr; }
        unused_      = found->later;
        found->later = nullptr;
        return found;
    }

    std::size_t       width_;
    std::uint32_t     page_records_;
    std::vector<page> pages_;
    std::mutex        mutex_;
    page*             unused_ = nullptr; ///< first unused page; guarded by `mutex_`
    page*             oldest_ = nullptr; ///< page to overwrite next; guarded by `mutex_`
    page*             newest_ = nullptr; ///< page that became full last; guarded by `mutex_`
    std::atomic<std::uint64_t> horizon_{0};
    std::atomic<std::uint64_t> overwritten_{0};
    writer                     first_[most_first];
    /// Write positions of the threads with numbers from `most_first` on, in groups of 64 numbers. A
    /// group is allocated when it is first used.
    std::atomic<group*>    others_[most_thread_numbers / most_first - 1]{};
    std::unique_ptr<group> owners_[most_thread_numbers / most_first - 1];
    std::mutex             last_lock_;
    /// The write position of all threads without their own share. These are the threads with a
    /// number of at least `most_thread_numbers`, and those for whose `group` of write positions
    /// there was no host memory. Guarded by `last_lock_`.
    writer last_;
};

} // namespace detail
} // namespace vram
