// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_sleep` adds the time of waking to the simulated time of a thread.

#include <vram/sim/machine/sim_machine.hpp>

#include <algorithm> // max
#include <mutex>     // unique_lock

namespace vram {
namespace detail {

/// Adds the cost of waking, `sim_costs::thread_wake`, to the simulated time of a waiting thread
/// that a notification wakes. There is no cost while the thread still polls instead of sleeping.
///
/// Threads   The waiting thread uses the object. It must not hold the machine's lock.
/// Cost      A lock for each notification.
class sim_sleep {
public:
    /// `self` is the calling thread, or null if calls of this thread take no simulated time. The
    /// thread polls for the time `polls`, and then sleeps.
    sim_sleep(sim_machine& machine, sim_host* self, sim_time polls) noexcept
        : machine_{machine}, self_{self} {
        if (self_ == nullptr) { return; }
        from_  = self_->clock;
        until_ = polls == sim_time::max() ? polls : from_ + polls;
    }

    /// Called by the waiting thread after each notification. If the thread has slept since the last
    /// call, adds `sim_costs::thread_wake` to the simulated time of the thread.
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
    sim_time     from_{};  ///< simulated time of the constructor call or the last call of `woken`
    sim_time     until_{}; ///< the thread polls until this time, and then sleeps
};

} // namespace detail
} // namespace vram
