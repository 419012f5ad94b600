// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Options of nodes for tests of the simulated device: mistakes are collected instead of thrown.

#include <vram/sim/sim_error.hpp>   // sim_error, sim_status
#include <vram/sim/sim_options.hpp> // sim_options

namespace doubles {

[[nodiscard]] inline vram::sim_options collecting() {
    return {.on_report = vram::sim_on_report::collect};
}

/// Options of a node that also keeps a trace of all operations.
[[nodiscard]] inline vram::sim_options traced() {
    return {.on_report = vram::sim_on_report::collect, .trace = true};
}

/// Returns the status with which a call ended.
template <class Body>
[[nodiscard]] vram::sim_status status_of(Body body) {
    try {
        body();
    } catch (vram::sim_error const& e) { return e.status(); }
    return vram::sim_status::ok;
}

} // namespace doubles
