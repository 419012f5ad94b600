// SPDX-License-Identifier: Apache-2.0
// refuse-first: write loader\{std::move\(source\)
// A loader owns its source: one that cannot be copied is moved in.
#include <vram/data/file_records.hpp>
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

void feed(vram::file_records<vram::file>& source, vram::sim_stream& stream) {
    vram::loader batches{source, stream};
}
