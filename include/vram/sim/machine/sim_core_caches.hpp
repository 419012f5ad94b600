// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_core_caches` records which pinned memory is in the caches of the host's cores.

#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of

#include <cstddef> // ptrdiff_t
#include <cstdint>
#include <thread> // thread
#include <vector> // vector

namespace vram {
namespace detail {

/// The ranges of pinned memory that are in the caches of the host's cores. Each thread has its own
/// cache, which contains the ranges that the thread copied last. If the cache is full, the oldest
/// ranges are removed. A copy by a device removes the memory that it accesses from all caches.
///
/// Threads   The caller holds the machine's lock.
/// Cost      Linear in the number of ranges. `copied` leaves at most 64 ranges to its thread.
class sim_core_caches {
public:
    /// Records that a copy by `thread` has read or written `bytes` bytes of pinned memory at
    /// `begin`. This occupies `times * bytes` bytes of the thread's cache, which has `capacity`
    /// bytes.
    void copied(std::thread::id thread, std::uintptr_t begin, std::size_t bytes, std::size_t times,
                std::size_t capacity) {
        (void)take(begin, bytes);
        ranges_.push_back({thread, begin, begin + bytes, times});
        std::size_t filled = 0, count = 0;
        for (std::size_t i = ranges_.size(); i-- != 0;) {
            if (ranges_[i].thread != thread) { continue; }
            filled += (ranges_[i].end - ranges_[i].begin) * ranges_[i].times;
            if (filled >= capacity || ++count > most_) { erase(i); }
        }
    }
    /// Removes the `bytes` bytes of memory at `begin` from the caches of all threads. Returns how
    /// many of these bytes were in a cache.
    std::size_t take(std::uintptr_t begin, std::size_t bytes) {
        std::uintptr_t const end  = begin + bytes;
        std::size_t          held = 0;
        for (std::size_t i = ranges_.size(); i-- != 0;) {
            range const whole = ranges_[i];
            if (whole.end <= begin || end <= whole.begin) { continue; }
            held += smaller_of(whole.end, end) - larger_of(whole.begin, begin);
            erase(i); // erases the whole range; its parts outside [begin, end) are added again
            if (whole.end > end) { insert(i, {whole.thread, end, whole.end, whole.times}); }
            if (whole.begin < begin) { insert(i, {whole.thread, whole.begin, begin, whole.times}); }
        }
        return held;
    }

private:
    struct range {
        std::thread::id thread{};
        std::uintptr_t  begin = 0;
        std::uintptr_t  end   = 0;
        std::size_t     times = 1; ///< each byte of the range occupies this many bytes of the cache
    };
    void erase(std::size_t i) { ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(i)); }
    void insert(std::size_t i, range const& r) {
        ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(i), r);
    }

    static constexpr std::size_t most_ = 64;
    std::vector<range>           ranges_; ///< the ranges in all caches, the oldest first
};

} // namespace detail
} // namespace vram
