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

/// The state of a host thread in simulated time. Each `sim_thread`, and each thread that has
/// started one and not joined all, has its own object. All other (*ordinary*) threads share one or,
/// with `sim_host_order::checked`, have one each. With `sim_order::freely`, and after
/// `sim_node::finish`, a thread is ordinary.
struct sim_host {
    /// `blocked`: the thread waits in simulated time. `away`: the thread made no call for so long
    /// that it is assumed to block in real time. This state ends with the thread's next call.
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
    /// True if the function of a `sim_thread` returned in simulated time. A thread in the state
    /// `ended` without it left simulated time in `sim_node::finish`, which may still wait.
    bool returned = false;
    /// True if the thread was selected to resolve a deadlock: its wait throws.
    bool deadlocked = false;
    /// True if an ordinary thread (no `sim_thread`) may end the wait of this thread. The wait is
    /// then not part of a deadlock.
    bool may_be_outside = false;
    /// The device operation that this thread waits for in simulated time, or empty.
    sim_moment  operation{};
    void const* gate = nullptr;
    /// True if the thread waits for a `sim_lock`, false if it waits for a `sim_gate`. The member
    /// `gate` is an address in this lock or gate.
    bool locked_out = false;
    /// The threads that this thread waits for in a join.
    std::vector<sim_host const*> threads;
    sim_host*                    maker = nullptr; ///< the thread that started this one
    /// Number of threads that this thread has started and not yet joined.
    int                     children = 0;
    std::condition_variable turn;

    /// Begins a new step of this thread in its vector clock. An operation that happens after the
    /// earlier steps does not necessarily happen after the new step.
    void advance() { vclock.advance(slot); }
};

/// The state of a real thread on one simulated node: its current device, and its state in simulated
/// time.
struct sim_self {
    std::uint64_t node   = 0;
    int           device = 0;
    /// The thread's state in simulated time. Null for a thread that is no `sim_thread` and has not
    /// started one.
    sim_host* host = nullptr;
    /// Own state of an ordinary thread (no `sim_thread`) with `sim_host_order::checked`, or null.
    sim_host* own = nullptr;
    /// If true, calls that CUDA forbids during a capture do not invalidate the capture if this
    /// thread makes them. True in a `sim_thread`, and while a `sim_capture_guard` of the thread
    /// exists.
    bool relaxed = false;
    bool child   = false; ///< true if `sim_thread` started the thread
    /// The per-thread default streams of this thread, by the index of the device.
    std::vector<sim_stream_state*> streams = {};
};

/// The calling thread's state on each simulated machine. This is a pointer, which has no
/// destructor, so that destructors of static objects can still use the list.
inline constinit thread_local std::vector<sim_self>* selves = nullptr;

/// Deletes the list `selves` when its thread ends. Keeps the list if the thread is still in
/// simulated time, because destructors of static objects may then use it.
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
        // If the list is still null, the thread is ending and has already destroyed `owner`. The
        // new list is then never freed.
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
