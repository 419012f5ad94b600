// SPDX-License-Identifier: Apache-2.0
// refuse-first: write memory_chunks\{std::as_bytes
// The elements of a vector of numbers are no batches.
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <vector>

void feed(std::vector<float>& values, vram::sim_stream& stream) {
    vram::loader batches{values, stream};
}
