// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_state` is what the simulated machine remembers of its streams, events and devices.

#include <vram/sim/sim_error.hpp>     // sim_status
#include <vram/sim/sim_operation.hpp> // sim_moment, sim_task
#include <vram/sim/sim_time.hpp>      // sim_time
#include <vram/sim/vector_clock.hpp>  // vector_clock

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <memory>  // shared_ptr
#include <thread>  // thread::id
#include <vector>  // vector

namespace vram {

class sim_machine;
struct sim_stream_state;
struct sim_block; // sim/sim_block.hpp

/// Who may not do what a capture does not bear: everybody, the capturing thread, nobody.
enum class sim_capture_mode : unsigned char { global, thread_local_only, relaxed };

/// What was captured: tasks and what each must wait for, by index.
struct sim_graph_state {
    struct node {
        sim_task                 task;
        std::vector<std::size_t> after;
        sim_block*               allocates = nullptr; ///< the block that becomes live here
        sim_block*               frees     = nullptr; ///< the block that is freed here
        std::size_t              branch    = 0; ///< nodes of one branch follow each other; 0: first
    };
    std::vector<node>       nodes;
    std::size_t             branches = 1;
    sim_moment              last;             ///< the end of the last launch
    vector_clock            last_knows;       ///< what happened before it
    sim_stream_state const* origin = nullptr; ///< the stream that the capture began on
    std::thread::id         owner;            ///< the thread that began it
    sim_capture_mode        mode{};
    bool                    broken = false; ///< by an illegal call
    bool                    ended  = false; ///< no stream is captured into it any more
};

/// A stream. The object is used again for a new stream at once; the id never is.
struct sim_stream_state {
    sim_machine*               machine = nullptr;
    std::atomic<std::uint64_t> id{0}; ///< 0: destroyed
    int                        device   = 0;
    bool                       blocking = false; ///< is in order with the legacy default stream
    bool                       legacy   = false; ///< is the legacy default stream

    bool                     announced = false; ///< its end will be, and those that know it hold it
    std::atomic<bool>        ended{false};      ///< its owner has destroyed it
    std::atomic<std::size_t> shares{0};         ///< the owner's and the holds'

    sim_moment              tail;          ///< its last operation
    std::vector<sim_moment> waits;         ///< what its next operation must wait for besides
    std::size_t             sweep_at = 16; ///< size of `waits` at which completed ones are removed
    vector_clock            knows;         ///< what happened before its next operation
    std::size_t             slot        = 0; ///< its own place in vector clocks
    std::uint64_t           count       = 0; ///< its own count
    std::uint64_t           work        = 0; ///< operations it was ever given
    std::uint64_t           legacy_seen = 0; ///< the device's legacy work that it is ordered after

    std::shared_ptr<sim_graph_state> capture;      ///< being captured into
    std::vector<std::size_t>         capture_deps; ///< what its next node must wait for

    /// Places in vector clocks for the parallel branches of the graphs that are launched here.
    std::vector<std::size_t> branch_slots;
};

/// An event: a place in a stream's order, and what was known there.
struct sim_event_state {
    sim_machine*  machine  = nullptr;
    int           device   = 0;
    bool          timed    = false;
    bool          recorded = false;
    sim_moment    place;
    vector_clock  knows;
    std::size_t   slot  = 0; ///< of the stream it was recorded on, with its count then
    std::uint64_t count = 0;
    sim_time      when{}; ///< when it happened, where it is timed

    std::shared_ptr<sim_graph_state> capture; ///< recorded in a capture: it orders only the graph
    std::vector<std::size_t>         nodes;
};

/// A device, beside its engines.
struct sim_device_state {
    std::size_t                    capacity = 0;
    std::size_t                    used     = 0; ///< live allocations, rounded, and what pools hold
    std::size_t                    taken    = 0; ///< by another process
    bool                           lost     = false;
    sim_status                     pending  = sim_status::ok; ///< told at the next synchronise
    bool                           sticky   = false;
    sim_stream_state*              legacy   = nullptr;
    std::vector<bool>              peers;   ///< whose memory its kernels may use
    std::vector<sim_stream_state*> streams; ///< those that are alive
    std::vector<sim_moment>        orphans; ///< the last work of streams that were destroyed
    vector_clock                   orphans_know;
    std::vector<sim_moment>        blocking_orphans; ///< those that the legacy stream comes after
    vector_clock                   blocking_orphans_know;

    /// Free for its own process.
    [[nodiscard]] std::size_t free() const noexcept {
        return capacity > used + taken ? capacity - used - taken : 0;
    }
};

} // namespace vram
