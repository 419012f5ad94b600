// SPDX-License-Identifier: Apache-2.0
// The same stack, written from the inside out and in reading order.

#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/report.hpp>
#include <vram/sim/sim.hpp>

#include <cstdio>
#include <type_traits>

using namespace vram;

int main() {
    // [compose]
    auto memory = sim_resource{}          // device memory
                  | with::stream_ordered  // that waits for streams,
                  | with::pool()          // divided into blocks,
                  | with::limiting(8_GiB) // at most 8 GiB of it,
                  | with::statistics;     // counted
    static_assert(
        std::is_same_v<decltype(memory), statistics<limiting<pool<stream_ordered<sim_resource>>>>>);
    // [/compose]

    sim_stream  stream;
    void* const p = memory.allocate(stream, 3_GiB);
    expects(memory.now().bytes.value == std::ptrdiff_t{3_GiB}, "statistics sees it");
    expects(memory.upstream().used() == 3_GiB, "limiting sees it");
    expects(memory.try_allocate(stream, 6_GiB) == nullptr, "the budget holds");

    // [report]
    std::fputs(report(memory).c_str(), stdout);
    // [/report]
    memory.deallocate(stream, p, 3_GiB);
}
