// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_host` is the simulated machine's state of one host thread.

#include <vram/sim/machine/sim_operation.hpp> // sim_moment
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_time.hpp>

#include <condition_variable> // condition_variable
#include <cstddef>            // size_t
#include <cstdint>            // uint64_t
#include <utility>            // exchange, swap
#include <vector>             // vector

namespace vram {
namespace detail {

struct sim_stream_state;

/// The state of a host thread that participates in virtual time (a `sim_thread`, or the thread that
/// started one). Number 0 stands for all ordinary threads together. The simulation does not see the
/// locks between them, so it treats everything that they do as ordered.
struct sim_host {
    /// The thread may run (`runnable`), waits in virtual (simulated) time (`blocked`), blocks in
    /// real time, unseen by the simulation, so that other threads run (`away`), or has ended.
    enum class state : unsigned char { runnable, blocked, away, ended };

    std::uint64_t number   = 0;
    bool          child    = false; ///< true if `sim_thread` started the thread
    bool          ordinary = false; ///< true for threads that are no `sim_thread`
    sim_time      clock{};
    /// Vector clock: the operations that happen before the next step of this thread.
    vector_clock vclock;
    std::size_t  slot = 0; ///< index of this thread in vector clocks

    state now     = state::runnable;
    bool  started = false; ///< true after the first call of the simulated device
    /// True if the thread was chosen to resolve a deadlock: its wait throws.
    bool deadlocked = false;
    /// True if an ordinary thread (not a `sim_thread`) may end the wait, so that it is no deadlock.
    bool may_be_outside = false;
    /// The operation that this thread waits for, if it waits neither at `gate` (address in a
    /// `sim_gate` or `sim_lock`) nor for `threads`.
    sim_moment                   operation{};
    void const*                  gate       = nullptr;
    bool                         locked_out = false; ///< true if it waits for a `sim_lock`
    std::vector<sim_host const*> threads;            ///< all threads that this thread joins
    sim_host*                    maker = nullptr;    ///< thread that started this one
    /// Number of threads started and not yet joined.
    int                     children = 0;
    std::condition_variable turn;

    /// Increments this thread's own counter, so that its later actions are not ordered before
    /// operations that have joined its vector clock so far.
    void advance() { vclock.advance(slot); }
};

/// The state of a real thread on one node: its current device, and its part in virtual time.
struct sim_self {
    std::uint64_t node   = 0;
    int           device = 0;
    /// The thread's state in simulated time; null for an ordinary thread (not a `sim_thread`).
    sim_host* host = nullptr;
    /// The state of an ordinary thread, if its calls are not ordered (`sim_host_order::checked`).
    sim_host* own = nullptr;
    /// True within a `sim_capture_guard`: no call of this thread invalidates a capture.
    bool                           relaxed = false;
    bool                           child   = false; ///< true if `sim_thread` started the thread
    std::vector<sim_stream_state*> streams =
        /// The per-thread default streams of this thread, by device.
        {};
};

/// The calling thread's state on each node that it has used. It is a pointer because objects in
/// static storage, which may use it, are destroyed after the thread-local objects of the main
/// thread.
inline constinit thread_local std::vector<sim_self>* selves = nullptr;

/// Frees `selves` when the thread ends. A participating thread (`sim_thread`) that ends the process
/// keeps `selves`, because destructors of static objects may still make calls in the virtual time
/// of this thread.
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

/// Returns the calling thread's state on the node with the id `node`. If the thread uses only one
/// node, the lookup is one comparison.
inline sim_self& self(std::uint64_t node) {
    if (selves == nullptr) [[unlikely]] {
        thread_local sim_self_owner const owner;
        // A thread that calls this after its `owner` was destroyed leaks the new vector.
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
