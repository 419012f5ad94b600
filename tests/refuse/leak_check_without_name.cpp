// SPDX-License-Identifier: Apache-2.0
// refuse-first: (ignoring return value|declared with.* 'nodiscard' attribute|"nodiscard")
// except: nvcc
// A probe without a name ends at once. The compilers warn, which is an error here.
#include <vram/pool/pool.hpp>
#include <vram/probe/leak_check.hpp>
#include <vram/sim/sim.hpp>

#pragma GCC diagnostic error "-Wunused-result"
#pragma GCC diagnostic error "-Wunused-value"

void train(vram::pool<vram::sim_resource>& memory) { vram::leak_check{memory}; }
