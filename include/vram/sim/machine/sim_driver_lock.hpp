// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_driver_lock` is the lock of a device's driver in simulated time.

#include <vram/sim/sim_time.hpp>

namespace vram {
namespace detail {

/// The lock that each call of a device's driver holds for its cost. A call of another thread that
/// begins meanwhile gets the lock at the end, plus the time of the hand-over.
///
/// Threads   The caller holds the machine's lock.
class sim_driver_lock {
public:
    /// Returns the end of a call that begins at `now`, waits while the lock is held, and then holds
    /// it for `cost`. If it waited, `handoff` is added.
    [[nodiscard]] sim_time hold(sim_time now, sim_time cost, sim_time handoff) noexcept {
        if (cost == sim_time{}) { return now; }
        // Threads that do not run in the order of their times may call at an earlier time.
        if (now < from_ || now > until_) {
            from_ = now;
        } else if (now < until_) { // not a call of the thread that held it last
            now = until_ + handoff;
        }
        return until_ = now + cost;
    }

private:
    /// The lock was held or handed over from `from_` to `until_`, without a pause.
    sim_time from_{};
    sim_time until_{};
};

} // namespace detail
} // namespace vram
