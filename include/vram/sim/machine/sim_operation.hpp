// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_operation` is one operation of a simulated engine, such as a copy or a kernel.

#include <vram/sim/machine/sim_copy_kind.hpp>
#include <vram/sim/machine/sim_meeting.hpp>
#include <vram/sim/machine/sim_word.hpp> // sim_word_use
#include <vram/sim/sim_figures.hpp>      // sim_engine
#include <vram/sim/sim_range.hpp>        // sim_range, sim_access
#include <vram/sim/sim_report.hpp>       // sim_part, sim_event_of
#include <vram/sim/sim_time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>      // function
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <vector>          // vector

namespace vram {
namespace detail {

/// The description of an operation: engine, duration, the memory that it accesses, and its effect.
struct sim_task {
    struct use {
        sim_range  range;
        sim_access access;
    };

    char const* name   = "";
    sim_engine  engine = sim_engine::none;
    int         device = 0; ///< the device that executes the operation
    sim_time    duration{};
    /// The part of `duration` in which the operation uses its link. This part takes longer if other
    /// operations use the link at the same time.
    sim_time    transfer{};
    std::size_t link = 0; ///< number of the link that the operation uses, see `sim_link_number`
    /// The kind of copy that the operation is, if it is one.
    sim_copy_kind copy = sim_copy_kind::none;
    /// For a copy or fill: the device of the stream on which the program queued or captured it.
    int caller = 0;
    /// The part of vram that queued the operation, or `program`. For a copy of a loader or
    /// unloader, the member `item` is the number of the copied batch or result.
    sim_part      part = sim_part::program;
    std::uint32_t item = sim_event_of::no_item;
    /// True for an injected fault with `sim_fault::later`: the operation has no effect, and the
    /// device's next synchronization throws.
    bool fails = false;
    /// True for a host function, which may pass work to host threads through a `sim_gate` (mutex
    /// and condition variable).
    bool             host_function = false;
    std::size_t      bytes         = 0; ///< number of bytes that a copy transfers
    std::vector<use> uses          = {};
    /// Executed at the end of the operation, such as the body of a kernel. Runs without the
    /// machine's lock.
    std::function<void()> effect = {};
    /// Executed after `effect`, to change the simulator's own state. Runs with the machine's lock.
    std::function<void()> completed = {};
    std::source_location  where     = {};
    /// Word in memory that the operation writes or waits for, if any.
    std::shared_ptr<sim_word_use const> word = {};
    /// Collective that the operation is a part of, if any.
    std::shared_ptr<sim_meeting> meeting = {};
};

/// A queued operation. After the operation has ended, the object is reused for a later operation,
/// which has another `number`.
struct sim_operation {
    sim_task task;
    /// Number that identifies the operation. Later operations have larger numbers. 0 while the
    /// object stands for no operation.
    std::uint64_t number = 0;
    std::uint64_t stream = 0; ///< id of the stream on which the operation is queued
    sim_time      enqueued{};
    sim_time      ready{};
    sim_time      start{};
    sim_time      end{};
    /// Number of times that the planned end of the operation has changed. The end changes when
    /// other operations begin or stop using the link. Events queued with an older number are
    /// ignored.
    unsigned moves  = 0;
    bool     shares = false; ///< true while the operation is a user of a link with shared speed
    /// Number of unfinished operations that this one waits for.
    unsigned                    blockers = 0;
    std::vector<sim_operation*> followers; ///< the operations that wait for this one
};

/// A reference to an operation. The reference is `pending` until the operation has ended. Later,
/// the `sim_operation` object may stand for another operation, with another number.
struct sim_moment {
    sim_operation* operation = nullptr;
    std::uint64_t  number    = 0;

    [[nodiscard]] bool pending() const noexcept {
        return operation != nullptr && operation->number == number;
    }
};

} // namespace detail
} // namespace vram
