// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_capture_guard` permits the calling thread to query and allocate during a graph capture.

#include <vram/sim/machine/sim_machine.hpp>

#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// As long as the object exists, calls of this thread that CUDA forbids during a capture do not
/// invalidate a capture in progress. A wait for a captured stream still fails. The simulated
/// `cuda_capture_guard`.
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

} // namespace detail
} // namespace vram
