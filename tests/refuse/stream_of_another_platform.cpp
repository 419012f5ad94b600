// SPDX-License-Identifier: Apache-2.0
// refuse-first: belongs to another platform than the memory: write sim_stream with sim_resource
// Simulated memory is used on simulated streams.
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

void* ask(vram::pool<vram::sim_resource>& memory, vram::host_platform::stream stream) {
    return memory.allocate(stream, 64);
}
