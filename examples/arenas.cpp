// SPDX-License-Identifier: Apache-2.0
// Each stream has a shard (a pool of its own) over one shared upstream: no stream waits for the
// memory of another, and no thread for the lock of another.

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/probe/report.hpp>
#include <vram/sim/sim.hpp>

#include <chrono>
#include <cstdio>

using namespace vram;
using namespace std::chrono_literals;

int main() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream prefill, decode;

    // [arenas]
    arena<pool<stream_ordered<sim_resource>>> memory{{.key = arena_key::stream}};

    for (int step = 0; step < 100; ++step) {
        for (auto const* stream : {&prefill, &decode}) {
            void* const scratch = memory.allocate(*stream, 8_MiB);
            sim_launch(*stream, {.writes = {{scratch, 8_MiB}}, .duration = 1ms});
            memory.deallocate(*stream, scratch, 8_MiB);
        }
    }
    expects(memory.usage().waits == 0, "each stream reused its own memory");
    // [/arenas]

    // [handed]
    void* const cache = memory.allocate(prefill, 64_MiB);
    sim_launch(prefill, {.writes = {{cache, 64_MiB}}, .duration = 1ms});
    sim_event ready{sim_platform::current_device()};
    ready.record(prefill);
    ready.wait(decode);
    sim_launch(decode, {.reads = {{cache, 64_MiB}}, .duration = 1ms});
    memory.deallocate(decode, cache, 64_MiB); // prefill may reuse it when decode is done
    // [/handed]
    void* const next = memory.allocate(prefill, 64_MiB);
    expects(next == cache, "the same bytes");
    expects(memory.usage().waits == 1, "after one wait, on the device");
    memory.deallocate(prefill, next, 64_MiB);

    // Memory that one stream left idle serves another before a request is refused.
    void* const most = memory.allocate(decode, 1000_MiB);
    expects(memory.usage().live == 1000_MiB, "nearly all of the device");
    std::fputs(report(memory).c_str(), stdout);
    memory.deallocate(decode, most, 1000_MiB);
}
