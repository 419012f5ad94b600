// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_driver_lock` is the lock of a device's driver in simulated time.

#include <vram/sim/sim_time.hpp>

namespace vram {
namespace detail {

/// The lock of a device's driver in simulated time, which each call holds for its cost. A call that
/// begins meanwhile waits for the lock and its hand-over. A later call of another thread costs
/// more, because the driver's data is in the cache of another core.
///
/// Threads   The caller holds the machine's lock.
class sim_driver_lock {
public:
    /// Returns the end of a call of `thread` that begins at `now`, waits while the lock is held,
    /// and then holds it for `cost`. A wait adds `handoff`; otherwise, `other` is added if another
    /// thread called last.
    [[nodiscard]] sim_time hold(void const* thread, sim_time now, sim_time cost, sim_time handoff,
                                sim_time other) noexcept {
        if (cost == sim_time{}) { return now; }
        // Threads that do not run in the order of their times may call at an earlier time.
        bool const paused = now < from_ || now > until_;
        if (!paused && now < until_) {
            now = until_ + handoff;
        } else if (last_ != nullptr && last_ != thread) {
            cost += other;
        }
        if (paused) { from_ = now; }
        last_         = thread;
        return until_ = now + cost;
    }

private:
    /// The lock has been in use, without a pause, from `from_` until `until_`.
    sim_time    from_{};
    sim_time    until_{};
    void const* last_ = nullptr; ///< the thread that called last
};

} // namespace detail
} // namespace vram
