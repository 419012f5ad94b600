// SPDX-License-Identifier: Apache-2.0
// refuse-first: a loader's source .*fill\(std::span<std::byte> to, std::size_t index\)
// A source takes the memory of a batch and its index.
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <cstddef>

void feed(vram::sim_stream& stream) {
    auto fill = [](float* to, int count) -> std::size_t { return to != nullptr ? count : 0; };
    vram::loader batches{fill, stream, {.batch_bytes = 1024}};
}
