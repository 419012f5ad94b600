// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_outside_step` is one step of the wait of a host thread that is no `sim_thread`.

#include <vram/sim/machine/sim_machine.hpp>

#include <chrono>             // nanoseconds
#include <condition_variable> // cv_status
#include <cstdint>
#include <filesystem>   // directory_iterator
#include <mutex>        // mutex, unique_lock
#include <system_error> // error_code

namespace vram {
namespace detail {

/// Returns true if the process has no other thread. Only Linux can tell; elsewhere returns
/// false.
[[nodiscard]] inline bool only_thread() noexcept {
    std::error_code                     failed;
    std::filesystem::directory_iterator tasks{"/proc/self/task", failed};
    return !failed && tasks != std::filesystem::directory_iterator{} &&
           ++tasks == std::filesystem::directory_iterator{};
}

/// Called repeatedly by an ordinary thread (no `sim_thread`) that waits. Runs the next event of the
/// simulation if possible, otherwise blocks for some time. Returns false if `patience` of real time
/// passed without a call of a `sim_thread`, otherwise true.
///
/// If `patience` is `forever`, blocks for at most `sim_machine::stuck_patience`. If nothing changes
/// during that time, reports a deadlock of streams, or lets another `sim_thread` run. In the second
/// case, it treats the running `sim_thread` as blocked in real time.
inline bool sim_outside_step(sim_machine& m, std::unique_lock<std::mutex>& held,
                             std::chrono::nanoseconds patience = sim_turns::forever) {
    if (m.turns.outside_may_step() && m.schedule.next() != sim_time::max()) {
        m.schedule.step(held);
        m.turns.progress.notify_all();
    } else if (patience == sim_turns::forever && m.schedule.stuck() && m.turns.outside_may_step()) {
        std::uint64_t const seen = m.schedule.count();
        bool const late = only_thread() || m.turns.progress.wait_for(held, m.stuck_patience) ==
                                               std::cv_status::timeout;
        bool const same = m.schedule.count() == seen && m.schedule.next() == sim_time::max();
        if (late && same && m.schedule.stuck()) { m.resolve_stuck(); }
    } else if (patience == sim_turns::forever) {
        std::uint64_t const calls = m.turns.activity();
        bool const          late =
            m.turns.progress.wait_for(held, m.stuck_patience) == std::cv_status::timeout;
        if (late && m.turns.activity() == calls && !m.schedule.executing()) {
            m.turns.step_aside(held);
        }
    } else {
        std::uint64_t const seen = m.turns.activity();
        bool const late = m.turns.progress.wait_for(held, patience) == std::cv_status::timeout;
        return !late || m.turns.activity() != seen;
    }
    return true;
}

} // namespace detail
} // namespace vram
