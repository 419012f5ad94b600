// SPDX-License-Identifier: Apache-2.0
// Pageable host memory and a file are copied to the device and back at the speed of pinned memory.
// Times are virtual, so they can be asserted.

#include <vram/data/file.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/copy_batch.hpp>
#include <vram/staging/staging.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <span>
#include <vector>

using namespace vram;

int main() {
    // A host whose threads copy 7.1 GB/s each, and a link of 55.5 GB/s.
    sim_node node{{.host_bandwidth = 55'500'000'000, .host_copy_bandwidth = 7'100'000'000}};
    sim_async_resource memory;
    sim_stream         stream;

    std::vector<float> weights(128_MiB / sizeof(float));
    std::iota(weights.begin(), weights.end(), 1.0F);
    std::vector<float> results(weights.size());
    buffer             device{memory, stream, weights.size() * sizeof(float)};

    auto const start = node.now();
    // [stage]
    // Created once; it keeps its threads and its pinned memory.
    staging stage{stream, {.threads = 8}};
    stage.upload(stream, device.data(), weights);
    auto const how = stage.download(stream, results, device.data());
    std::printf("%s: %s\n", name(how.path), how.reason());
    // [/stage]
    auto const took = std::chrono::duration<double>{node.now() - start}.count();
    auto const rate = 2.0 * static_cast<double>(device.size()) / 1e9 / took;
    std::printf("there and back at %.1f GB/s\n", rate);

    auto const path = (std::filesystem::temp_directory_path() / "vram-example-stage").string();
    {
        // [file]
        file kept{path, {.use = file_options::mode::create}};
        stage.download(stream, kept, 0, device.data(), 128_MiB);
        stage.upload(stream, device.data(), kept, 64_MiB, 64_MiB); // the second half of it
        // [/file]
    }
    std::filesystem::remove(path);
    std::vector<float> half(results.size() / 2);
    stage.download(stream, half, device.data());

    // [error]
    try {
        stage.upload(stream, weights.data(), weights); // not a device pointer
    } catch (staging_error const& e) {
        std::printf("%s\n", e.what()); // with the bytes, the address and the cause
    }
    // [/error]

    {
        struct row {
            void*       to;
            void const* from;
            std::size_t bytes;
        };
        pool<sim_pinned_resource> pinned;
        void* const               lines = pinned.allocate_sync(256 * 4_KiB);
        std::vector<row>          wanted;
        for (std::size_t i = 0; i < 256; ++i) {
            wanted.push_back({static_cast<std::byte*>(device.data()) + i * 4_KiB,
                              static_cast<std::byte const*>(lines) + i * 4_KiB, 4_KiB});
        }
        // [batch]
        copy_batch<sim_platform> rows; // created once; on a GPU: cuda_platform
        for (row const& r : wanted) { rows.add(r.to, r.from, r.bytes); }
        rows.run(stream); // one call for all
        // [/batch]
        stream.synchronize();
        pinned.deallocate_sync(lines, 256 * 4_KiB);
    }

    expects(how.path == transfer_path::ring, "many bytes of plain memory go through the ring");
    expects(results == weights, "the download equals the upload");
    expects(std::equal(half.begin(), half.end(), weights.begin() + std::ptrdiff_t(half.size())),
            "and so does the file");
    expects(rate > 0.85 * 55.5 || !sim_ordered_threads, "the threads keep the link busy");
    expects(node.reports().empty(), "and nothing was used before it was there");
}
