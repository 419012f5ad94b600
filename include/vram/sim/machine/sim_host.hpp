// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_host` is the simulated machine's state of one host thread.

#include <vram/sim/machine/sim_operation.hpp> // sim_moment
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_time.hpp>

#include <condition_variable> // condition_variable
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

struct sim_stream_state;

/// The state of a host thread in simulated time: a `sim_thread`, or the thread that started one.
/// One object stands for all other (*ordinary*) threads together, unless `sim_host_order::checked`
/// is set.
struct sim_host {
    /// `blocked`: the thread waits in simulated time. `away`: the thread made no call for so long
    /// that it is assumed to block in real time, until its next call.
    enum class state : unsigned char { runnable, blocked, away, ended };

    std::uint64_t number = 0;
    bool          child  = false; ///< true if `sim_thread` started the thread
    /// True if the thread is neither a `sim_thread` nor has started one.
    bool     ordinary = false;
    sim_time clock{};
    /// The thread's vector clock: the operations that happen before its next step.
    vector_clock vclock;
    /// Index of this thread in vector clocks, which record the happens-before order.
    std::size_t slot = 0;

    state now     = state::runnable;
    bool  started = false; ///< true after the thread's first call of the simulated device
    /// True if the thread was selected to resolve a deadlock: its wait throws.
    bool deadlocked = false;
    /// True if a thread that is no `sim_thread` may end this thread's wait, so that it is no
    /// deadlock.
    bool may_be_outside = false;
    /// The device operation that this thread waits for, or empty. Not set for ordinary threads.
    sim_moment  operation{};
    void const* gate = nullptr;
    /// True if the thread waits for a `sim_lock`, false for a `sim_gate`; `gate` is its address.
    bool locked_out = false;
    /// The threads that this thread waits for in a join.
    std::vector<sim_host const*> threads;
    sim_host*                    maker = nullptr; ///< the thread that started this one
    /// Number of threads that this thread has started and not yet joined.
    int                     children = 0;
    std::condition_variable turn;

    /// Counts a new step of this thread. Operations that were ordered after its earlier steps are
    /// not ordered after the new one.
    void advance() { vclock.advance(slot); }
};

/// The state of a real thread on one simulated node: its current device, and its state in simulated
/// time.
struct sim_self {
    std::uint64_t node   = 0;
    int           device = 0;
    /// The thread's state in simulated time; null for a thread that is neither a `sim_thread` nor
    /// has started one.
    sim_host* host = nullptr;
    /// The state of a thread that is no `sim_thread`, if its calls are checked for their order
    /// (`sim_host_order::checked`).
    sim_host* own = nullptr;
    /// True in a `sim_thread` and within a `sim_capture_guard`: calls that CUDA forbids during a
    /// capture do not invalidate one.
    bool relaxed = false;
    bool child   = false; ///< true if `sim_thread` started the thread
    /// The per-thread default streams of this thread, by the index of the device.
    std::vector<sim_stream_state*> streams = {};
};

/// The calling thread's state on each simulated machine. A pointer, because destructors of static
/// objects use the state.
inline constinit thread_local std::vector<sim_self>* selves = nullptr;

/// When the thread ends, frees its list `selves`, unless it is in simulated time on some node:
/// destructors of static objects may then still use the list.
struct sim_self_owner {
    sim_self_owner() { selves = new std::vector<sim_self>(1); }
    sim_self_owner(sim_self_owner const&)            = delete;
    sim_self_owner& operator=(sim_self_owner const&) = delete;
    ~sim_self_owner() {
        for (sim_self const& each : *selves) {
            if (each.host != nullptr) { return; }
        }
        delete std::exchange(selves, nullptr);
    }
};

/// Returns the calling thread's state on the simulated node with the id `node`.
inline sim_self& self(std::uint64_t node) {
    if (selves == nullptr) [[unlikely]] {
        thread_local sim_self_owner const owner;
        // If the thread has already destroyed `owner`, which frees the vector at thread exit, a new
        // vector is created, and never freed.
        if (selves == nullptr) { selves = new std::vector<sim_self>(1); }
    }
    std::vector<sim_self>& all = *selves;
    if (all.front().node == node) { return all.front(); }
    for (auto& each : all) {
        if (each.node == node) {
            std::swap(each, all.front());
            return all.front();
        }
    }
    all.push_back({.node = node});
    std::swap(all.back(), all.front());
    return all.front();
}

} // namespace detail
} // namespace vram
