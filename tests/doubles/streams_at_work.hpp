// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `busy` keeps a simulated stream busy with some memory, `keep_busy` without memory.

#include <vram/sim/sim.hpp> // sim_launch

#include <chrono>  // chrono literals
#include <cstddef> // size_t

namespace doubles {

/// A kernel writes `memory` for the duration `how_long`.
inline void busy(vram::sim_stream_view s, void* memory, std::size_t bytes,
                 vram::sim_time how_long = std::chrono::milliseconds{1}) {
    vram::sim_launch(s, {.name = "busy", .writes = {{memory, bytes}}, .duration = how_long});
}

/// A kernel that accesses no memory runs for the duration `how_long`.
inline void keep_busy(vram::sim_stream_view s,
                      vram::sim_time        how_long = std::chrono::milliseconds{1}) {
    vram::sim_launch(s, {.name = "busy", .duration = how_long});
}

/// A stream without a notification of its end, like a plain `cudaStream_t`.
inline vram::sim_stream raw_stream(vram::sim_device device = vram::sim_device::current()) {
    return vram::sim_stream{device, {.raw = true}};
}

} // namespace doubles
