// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `busy` keeps a simulated stream at work on some memory.

#include <vram/sim/sim.hpp> // sim_launch

#include <chrono>  // chrono literals
#include <cstddef> // size_t

namespace doubles {

/// `memory` is written until `how_long` is over.
inline void busy(vram::sim_stream_view s, void* memory, std::size_t bytes,
                 vram::sim_time how_long = std::chrono::milliseconds{1}) {
    vram::sim_launch(s, {.name = "busy", .writes = {{memory, bytes}}, .duration = how_long});
}

/// A stream whose end nobody is told of, as of a plain `cudaStream_t`.
inline vram::sim_stream raw_stream(vram::sim_device device = vram::sim_device::current()) {
    return vram::sim_stream{device, {.raw = true}};
}

} // namespace doubles
