// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_driver_lock` is the lock of a device's driver in simulated time.

#include <vram/sim/sim_time.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// The lock of a device's driver in simulated time. A call that takes the lock holds it for the
/// time that the call costs. The object stores a few time ranges in which the lock is in use. A
/// call that begins in such a range waits for the lock, and takes additional time to receive it. A
/// call that begins before a range, because threads do not always run in the order of their
/// simulated times, does not wait for it. A call that does not wait takes additional time if
/// another thread was the last to take the lock, because the data of the driver is then in the
/// cache of another core.
///
/// Threads   The caller holds the machine's lock.
class sim_driver_lock {
public:
    /// Returns the time at which a call of `thread` ends. The call begins at `now`, waits until the
    /// end of a stored range if it begins in this range, and then holds the lock for `cost`. For
    /// each such wait, `handoff` is added. If the call does not wait, and another thread was the
    /// last to take the lock, `other` is added. If `cost` is 0, returns `now`.
    [[nodiscard]] sim_time hold(void const* thread, sim_time now, sim_time cost, sim_time handoff,
                                sim_time other) noexcept {
        if (cost == sim_time{}) { return now; }
        std::size_t at = count_;
        while (at != 0 && ranges_[at - 1].from > now) { --at; }
        if (at != 0 && now <= ranges_[at - 1].until) {
            --at;
        } else {
            at = insert(at, {now, now});
        }
        range& mine  = ranges_[at];
        bool   waits = false;
        while (now < mine.until) {
            now        = mine.until + handoff;
            waits      = true;
            mine.until = now;
            join_next(at);
        }
        if (!waits && last_ != nullptr && last_ != thread) { cost += other; }
        last_      = thread;
        mine.until = now + cost;
        join_next(at);
        return now + cost;
    }

private:
    /// A time in which the lock is in use without a pause.
    struct range {
        sim_time from, until;
    };

    /// Adds `r` before the range with the index `at`. If there are too many, removes the earliest.
    /// Returns the index of the new range.
    std::size_t insert(std::size_t at, range r) noexcept {
        if (count_ == most) {
            at -= at != 0 ? 1 : 0;
            remove(0);
        }
        for (std::size_t i = count_++; i > at; --i) { ranges_[i] = ranges_[i - 1]; }
        ranges_[at] = r;
        return at;
    }
    void remove(std::size_t at) noexcept {
        for (--count_; at < count_; ++at) { ranges_[at] = ranges_[at + 1]; }
    }
    /// Adds the ranges that begin before the end of the range with the index `at` to that range.
    void join_next(std::size_t at) noexcept {
        range& r = ranges_[at];
        while (at + 1 < count_ && ranges_[at + 1].from <= r.until) {
            if (r.until < ranges_[at + 1].until) { r.until = ranges_[at + 1].until; }
            remove(at + 1);
        }
    }

    static constexpr std::size_t most = 8;

    range       ranges_[most] = {}; ///< the first `count_` are in use, in the order of time
    std::size_t count_        = 0;
    void const* last_         = nullptr; ///< the thread that was the last to take the lock
};

} // namespace detail
} // namespace vram
