// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_sleep` adds the time of waking to the simulated time of a thread.

#include <vram/sim/machine/sim_machine.hpp>

#include <algorithm> // max
#include <mutex>     // unique_lock

namespace vram {
namespace detail {

/// A wait of a thread for notifications, which wake it if it sleeps. Each waking takes
/// `sim_costs::thread_wake`. A thread that first polls for the time `polls` does not sleep within
/// that time. A notification that comes before a woken thread runs does not wake it once more.
///
/// Threads   The waiting thread uses the object. It must not hold the machine's lock.
/// Cost      A lock for each notification.
class sim_sleep {
public:
    /// `self` is the calling thread, or null if its calls take no simulated time.
    sim_sleep(sim_machine& machine, sim_host* self, sim_time polls) noexcept
        : machine_{machine}, self_{self} {
        if (self_ == nullptr) { return; }
        from_  = self_->clock;
        until_ = polls == sim_time::max() ? polls : from_ + polls;
    }

    /// Called after each notification: adds the time until the thread runs, if it slept.
    void woken() {
        if (self_ == nullptr) { return; }
        std::unique_lock const held{machine_.mutex};
        if (self_->clock > std::max(from_, until_)) {
            self_->clock += machine_.options.costs.thread_wake;
        }
        from_ = self_->clock;
    }

private:
    sim_machine& machine_;
    sim_host*    self_;
    sim_time     from_{};  ///< simulated time at which the thread began to wait or to wait again
    sim_time     until_{}; ///< the thread polls until this time, and then sleeps
};

} // namespace detail
} // namespace vram
