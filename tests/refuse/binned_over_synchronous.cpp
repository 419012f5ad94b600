// SPDX-License-Identifier: Apache-2.0
// refuse-first: write binned<stream_ordered<cuda_resource>>
// Large blocks of a binned are allocated in stream order by its upstream.
#include <vram/pool/binned.hpp>
#include <vram/sim/sim.hpp>

vram::binned<vram::sim_resource> memory;
