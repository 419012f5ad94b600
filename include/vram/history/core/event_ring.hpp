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
#include <new>    // nothrow
#include <vector> // vector

namespace vram {
namespace detail {

/// Keeps at least the last `capacity` records of `width` words, the first of which is the time.
/// Each thread fills a page of its own, then takes an unused page or the page that became full
/// first. Without host memory fewer records are kept. Any thread may call any function.
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
          // One page more than `capacity` records need for each write position (`first_`, `last_`),
          // because the page of a position may be partly filled.
          pages_((capacity + page_records_ - 1) / page_records_ + most_first + 1) {
        add_unused(pages_.data(), pages_.size());
    }
    event_ring(event_ring const&)            = delete;
    event_ring& operator=(event_ring const&) = delete;

    [[nodiscard]] std::size_t width() const noexcept { return width_; }

    /// Stores a record. `number` is the number of the calling thread; `fill(to)` writes all words
    /// of the record to `to`, a `place`.
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

    /// The memory of one record of `width` words (64-bit numbers). A word that is not stored keeps
    /// an older value.
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

    /// Calls `take(words)` with a copy of each stored record, valid until `take` returns. Skips
    /// pages that a thread overwrites meanwhile.
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
            // A writer increments `lap` before it overwrites a word: if `lap` has changed, the copy
            // may mix two uses of the page.
            if (each.lap.load(std::memory_order_acquire) != lap) { return; }
            for (std::size_t i = 0; i != count; ++i) { take(copy.data() + i * width_); }
        });
    }

    /// Returns the time of the latest overwritten record, or 0 if none was overwritten. If called
    /// after `read`, there may be gaps between the records before this time.
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
        /// Incremented when a thread gets the page, before the thread overwrites records, so that
        /// `read` can detect this.
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
    /// Write positions of 64 thread numbers, and 64 further pages for the ring, because each of
    /// these threads may keep a partly filled page.
    struct group {
        writer writers[most_first];
        page   pages[most_first];
    };

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
        std::lock_guard const held{last_lock_}; // shared by threads: they take turns with a lock
        put(last_, fill);
    }
    /// Returns the writers of the 64 thread numbers from 64 * (`index` + 1) on, or null without
    /// host memory.
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

    /// Gives the writer `w` an unused page, or the page that became full first. Returns false if
    /// there is neither.
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
        // Words stored later are release stores, so that a `read` that copies one of them also sees
        // the new `lap`.
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
    /// Write position shared by threads without their own: with a number from `most_thread_numbers`
    /// on, or no host memory for their `group`. Guarded by `last_lock_`.
    writer last_;
};

} // namespace detail
} // namespace vram
