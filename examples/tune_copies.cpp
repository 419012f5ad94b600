// SPDX-License-Identifier: Apache-2.0
// The options of staging, a loader and an unloader: threads, depths, limits, and the states of a
// loader's blocks.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

void staging_threads() {
    sim_node   node;
    sim_stream stream;
    // Four threads, each with two pinned chunks of 1 MiB. Up to 256 KiB the device copies directly.
    staging_options const options{.threads = 4, .chunk_bytes = 1_MiB, .direct_bytes = 256_KiB};
    staging               copies{stream, options};
    sim_resource          memory;
    std::vector<float>    from(4_MiB / sizeof(float), 1.0F), back(from.size());
    void* const           device = memory.allocate_sync(4_MiB);
    auto const            up     = copies.upload(stream, device, from);
    auto const            down   = copies.download(stream, back, device);
    expects(options.resolved_threads() == 4, "as many threads as the options name");
    expects(up.path == transfer_path::ring && up.pieces >= 4, "pieces of at most 1 MiB");
    expects(down.bytes == 4_MiB && back == from, "the bytes are the same");
    memory.deallocate_sync(device, 4_MiB);
}

/// A source of floats: batch `index` has 1000 samples, the last one 200.
auto samples() {
    auto write = [](std::span<float> to, std::size_t index) -> std::size_t {
        if (index == 8) { return 0; } // no further batch
        std::size_t const n = index == 7 ? 200 : 1000;
        std::fill_n(to.begin(), n, static_cast<float>(index));
        return n;
    };
    return typed_source<float, decltype(write)>{write}; // or: typed<float>(write)
}

void loader_depths() {
    sim_node             node;
    sim_stream           stream;
    loader_options const options{
        .batch_bytes = 1000 * sizeof(float), // of a full batch
        .depth       = 3,                    // batches in progress
        .producers   = 2,                    // threads that fill batches
        .last        = last_batch::pad,      // the short batch is filled up with zeros
        .budget      = 1_MiB,                // the constructor throws if it needs more
        .timeout     = 10s,                  // then the loop gets `loader_error{timed_out}`
    };
    loader      batches{samples(), stream, options};
    std::size_t full = 0, filled = 0;
    for (auto const& batch : batches) {
        full += batch.size();
        filled += batch.filled();

        slot_states const now = batches.states(); // to find the reason of a stall
        if (now.filled + now.ready == 0 && now.filling != 0) { std::puts("the source is slow"); }
    }
    expects(full == 8 * 1000 * sizeof(float), "eight full batches");
    expects(filled == 7200 * sizeof(float), "with 7200 samples of the source");
}

void unloader_depths() {
    sim_node               node;
    sim_stream             stream;
    std::vector<std::byte> kept;
    auto const             sink = [&](std::span<std::byte const> result, std::size_t) {
        kept.insert(kept.end(), result.begin(), result.end());
    };
    unloader_options const options{.batch_bytes = 64_KiB, .depth = 3, .pinned_depth = 4};
    unloader               results{sink, stream, options};
    for (int i = 0; i < 8; ++i) {
        auto result = results.next(); // waits if the sink is behind
        sim_fill(stream, result.data(), std::byte{7}, 64_KiB);
        result.send(64_KiB);
    }
    results.finish();
    expects(kept.size() == 8 * 64_KiB, "the sink has received every result");
    expects(std::all_of(kept.begin(), kept.end(), [](std::byte b) { return b == std::byte{7}; }),
            "with the bytes that the device wrote");
}

} // namespace

int main() {
    staging_threads();
    loader_depths();
    unloader_depths();
}
