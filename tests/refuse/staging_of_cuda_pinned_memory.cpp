// SPDX-License-Identifier: Apache-2.0
// refuse-first: pinned memory belongs to another platform than the stream: .* sim_pinned_resource with sim_stream
// needs: cuda
// The simulated device copies from its own pinned memory.
#include <vram/cuda/cuda.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

void stage(vram::sim_stream& s) { vram::staging copies{s, vram::pinned_resource{}}; }
