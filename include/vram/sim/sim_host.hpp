// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_host` is a host thread as the simulated machine knows it.

#include <vram/sim/sim_operation.hpp> // sim_moment
#include <vram/sim/sim_time.hpp>      // sim_time
#include <vram/sim/vector_clock.hpp>  // vector_clock

#include <condition_variable> // condition_variable
#include <cstddef>            // size_t
#include <cstdint>            // uint64_t
#include <utility>            // exchange, swap
#include <vector>             // vector

namespace vram {

struct sim_stream_state;

/// A thread that participates, or (number 0) all the ordinary ones together: their real locks are
/// not seen, so what they do counts as ordered.
struct sim_host {
    /// `away`: it waits really, for something that the machine does not see, and the baton was
    /// taken from it.
    enum class state : unsigned char { runnable, blocked, away, ended };

    std::uint64_t number = 0;
    sim_time      clock{};
    vector_clock  knows;    ///< what happened before its next step
    std::size_t   slot = 0; ///< its own place in vector clocks

    state       now            = state::runnable;
    bool        started        = false; ///< it has made its first call
    bool        giving_up      = false; ///< blocked for good: its wait throws
    bool        may_be_outside = false; ///< what it waits for may come from an ordinary thread
    sim_moment  operation{};            ///< what it waits for, one of the three
    void const* gate       = nullptr;
    bool        locked_out = false;                  ///< the gate is a lock
    std::vector<sim_host const*> threads;            ///< all of them
    sim_host*                    maker    = nullptr; ///< the thread that started it
    int                          children = 0;       ///< threads it started that are not joined
    std::condition_variable      turn;

    /// Starts a new step: what follows is not known to those who joined so far.
    void advance() { knows.advance(slot); }
};

namespace detail {

/// What a real thread is on a node: its device, and its part in virtual time.
struct sim_self {
    std::uint64_t                  node    = 0;
    int                            device  = 0;
    sim_host*                      host    = nullptr; ///< null: ordinary
    bool                           relaxed = false;   ///< no capture forbids it anything
    bool                           child   = false;   ///< started as a participating thread
    std::vector<sim_stream_state*> streams =
        {}; ///< its default streams, where each thread has its own
};

/// This thread on its nodes. A pointer, because objects in static storage are destroyed after the
/// thread-local objects of the thread that ends the process.
inline constinit thread_local std::vector<sim_self>* selves = nullptr;

/// Frees it if the thread ends, but not if the thread participates: then it ends the process, and
/// its part in virtual time stays what it was.
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

/// This thread on node `node`. The common case, one node at a time, is one comparison.
inline sim_self& self(std::uint64_t node) {
    if (selves == nullptr) [[unlikely]] {
        thread_local sim_self_owner const owner;
        // After the owner has ended, which is late in the end of a thread, nobody frees it.
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
