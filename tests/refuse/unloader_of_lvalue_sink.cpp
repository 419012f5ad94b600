// SPDX-License-Identifier: Apache-2.0
// refuse-first: write unloader\{std::move\(sink\)
// An unloader owns its sink: one that cannot be copied is moved in.
#include <vram/sim/sim.hpp>
#include <vram/transfer/unloader.hpp>

#include <cstddef>
#include <span>

struct sink {
    sink()       = default;
    sink(sink&&) = default;
    void operator()(std::span<std::byte const>, std::size_t) {}
};

void store(sink& results, vram::sim_stream& stream) {
    vram::unloader out{results, stream, {.batch_bytes = 1024}};
}
