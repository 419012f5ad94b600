// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_interrupt` runs a function of a test before a chosen call of the simulated device.

#include <vram/base/contract.hpp>                 // expects
#include <vram/sim/machine/sim_resource_call.hpp> // sim_program_call

#include <cstdint>
#include <functional> // function
#include <utility>

namespace vram {

/// Runs a function once, before the `nth` call of the simulated device that the calling thread
/// makes from now on (1 is the next call). The function may call the device, and its calls do not
/// count.
///
///     sim_interrupt::before(3, [&] { sim_graph::begin(theirs); });
///     memory.deallocate(mine, p, bytes);
///     CHECK(sim_interrupt::end());         // the third call was reached
///
/// Failure   If the function throws, the exception leaves the interrupted call.
/// Threads   Each thread has its own interrupt.
/// Cost      One comparison per call of the device.
class sim_interrupt {
public:
    static void before(std::uint64_t nth, std::function<void()> what) {
        expects(nth != 0, "sim_interrupt: the next call has the number 1, so 0 is never reached");
        self() = {nth, std::move(what)};
    }
    /// Removes the function that was passed to `before`. Returns false if the function has not
    /// started, because the thread made fewer than `nth` calls. Returns true if the function has
    /// started, or if no function was passed.
    static bool end() noexcept {
        bool const happened = self().calls_ == 0;
        self()              = {};
        return happened;
    }
    /// Called at each call of the simulated device. Runs the function passed to `before` at the
    /// `nth` call.
    static void count() {
        sim_interrupt& mine = self();
        if (mine.calls_ == 0 || --mine.calls_ != 0) { return; }
        detail::sim_program_call const program;
        std::exchange(mine.what_, nullptr)();
    }

private:
    sim_interrupt() = default;
    sim_interrupt(std::uint64_t nth, std::function<void()> what)
        : calls_{nth}, what_{std::move(what)} {}

    static sim_interrupt& self() noexcept {
        thread_local sim_interrupt mine;
        return mine;
    }

    /// Number of calls of the device until the function passed to `before` runs; 1 means the next
    /// call. 0 if there is no such function, or if it has started.
    std::uint64_t         calls_ = 0;
    std::function<void()> what_{};
};

} // namespace vram
