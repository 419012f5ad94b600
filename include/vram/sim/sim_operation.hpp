// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_operation` is one piece of work that an engine of the simulated machine does.

#include <vram/sim/sim_range.hpp> // sim_range, sim_access
#include <vram/sim/sim_time.hpp>  // sim_time

#include <cstddef>         // size_t, byte
#include <cstdint>         // uint64_t
#include <functional>      // function
#include <source_location> // source_location
#include <vector>          // vector

namespace vram {

/// What does the work. `none` is for what takes no time: the place of an event.
enum class sim_engine : unsigned char { compute, to_device, to_host, peer, host, none };

/// The engines that can be busy.
inline constexpr std::size_t sim_engines = 5;

/// What is to be done, whenever that may be.
struct sim_task {
    struct use {
        sim_range  range;
        sim_access access;
    };

    char const*           name   = "";
    sim_engine            engine = sim_engine::none;
    int                   device = 0; ///< whose engine
    sim_time              duration{};
    bool                  copy          = false; ///< one of the machine's own copies and fills
    bool                  fails         = false; ///< by a planted fault: it has no effect
    bool                  host_function = false; ///< its effect may pass work to host threads
    std::size_t           bytes         = 0;     ///< that a copy moves
    std::vector<use>      uses          = {};
    std::function<void()> effect        = {}; ///< what it does; called without the machine's lock
    std::function<void()> settle = {}; ///< what it changes in the books; called with the lock
    std::source_location  where  = {};
};

/// A task on its way. Objects are used again; `number` tells one use from the next.
struct sim_operation {
    sim_task                    task;
    std::uint64_t               number = 0; ///< in the order of the calls; 0 when not in use
    std::uint64_t               stream = 0; ///< its id
    sim_time                    enqueued{};
    sim_time                    ready{};
    sim_time                    start{};
    sim_time                    end{};
    unsigned                    blockers = 0; ///< operations that must end before it
    std::vector<sim_operation*> followers;    ///< operations that wait for it
};

/// A place in a stream's order: an operation that may have ended meanwhile.
struct sim_moment {
    sim_operation* operation = nullptr;
    std::uint64_t  number    = 0;

    [[nodiscard]] bool pending() const noexcept {
        return operation != nullptr && operation->number == number;
    }
};

/// A finished operation, as `sim_node::trace` tells it.
struct sim_trace {
    char const*   name;
    std::uint64_t number;
    std::uint64_t stream;
    int           device;
    sim_engine    engine;
    sim_time      enqueued, start, end;
};

} // namespace vram
