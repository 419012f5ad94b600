// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_capture_guard` lets this thread ask and allocate while a graph is being captured.

#include <vram/sim/sim_machine.hpp> // sim_machine

#include <cstdint> // uint64_t
#include <utility> // exchange

namespace vram {

/// The simulated `cuda_capture_guard`: for a scope no capture forbids this thread anything. Where
/// vram guards a call of CUDA, and the simulated one could break a capture, that is guarded too.
///
/// Failure   never
/// Threads   of this thread alone
/// Cost      none
class sim_capture_guard {
public:
    explicit sim_capture_guard(sim_machine const& machine)
        : node_{machine.id}, before_{std::exchange(detail::self(node_).relaxed, true)} {}
    sim_capture_guard(sim_capture_guard&&) = delete;
    ~sim_capture_guard() { detail::self(node_).relaxed = before_; }

private:
    std::uint64_t node_;
    bool          before_;
};

} // namespace vram
