// SPDX-License-Identifier: Apache-2.0
// Results leave the device while the next ones are computed: a loader brings the batches, an
// unloader writes the results to a file, in order. The host does not wait for the device.

#include <vram/data/file.hpp>
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/unloader.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

using namespace vram;

namespace {

constexpr std::size_t batches = 12, count = 4096; // `count` numbers per batch

/// Fills a batch with the numbers from `batch * count` on.
std::size_t fill(std::span<std::byte> to, std::size_t batch) {
    if (batch == batches) { return 0; }
    std::vector<float> numbers(count);
    for (std::size_t i = 0; i < count; ++i) { numbers[i] = static_cast<float>(batch * count + i); }
    std::memcpy(to.data(), numbers.data(), count * sizeof(float));
    return count * sizeof(float);
}

/// The kernel: a square root for each number.
void infer(sim_stream& stream, std::span<float const> numbers, std::span<float> roots) {
    sim_launch(stream,
               {.name   = "infer",
                .reads  = {{numbers.data(), numbers.size_bytes()}},
                .writes = {{roots.data(), roots.size_bytes()}}},
               [=] {
                   auto const from = sim_view(numbers);
                   auto const to   = sim_view(roots);
                   for (std::size_t i = 0; i < from.size(); ++i) { to[i] = std::sqrt(from[i]); }
               });
}

/// Runs the loop; returns the number of host waits for the device.
std::uint64_t stream_through(std::string const& path, sim_node& node) {
    sim_stream          stream;
    std::uint64_t const waits = node.figures().host_waits;
    // [unloader]
    file out{path, {.use = file_options::mode::create}};
    auto sink = [&](std::span<std::byte const> result, std::size_t index) {
        out.write(result, index * count * sizeof(float)); // on the unloader's thread, in order
    };
    loader   inputs{fill, stream, {.batch_bytes = count * sizeof(float)}};
    unloader results{sink, stream, {.batch_bytes = count * sizeof(float)}};
    for (auto& batch : inputs) {
        auto result = results.next(); // device memory, without a wait
        infer(stream, batch.span<float>(), result.span<float>());
        result.send(); // sent in stream order
    }
    results.finish(); // all results are written when it returns
    // [/unloader]
    return node.figures().host_waits - waits;
}

} // namespace

int main() {
    sim_node          node;
    auto const        place = std::filesystem::temp_directory_path() / "vram-stream-results";
    std::string const path  = place.string() + std::to_string(::getpid());
    auto const        waits = stream_through(path, node);

    std::vector<float> roots(batches * count);
    file{path}.read(std::as_writable_bytes(std::span{roots}), 0);
    std::filesystem::remove(path);
    std::size_t right = 0;
    for (std::size_t i = 0; i < roots.size(); ++i) {
        right += roots[i] == std::sqrt(static_cast<float>(i)) ? 1 : 0;
    }
    std::printf("%zu of %zu results arrived, in order; the host waited %llu times\n", right,
                roots.size(), static_cast<unsigned long long>(waits));
    return right == roots.size() && waits == 0 && node.reports().empty() ? 0 : 1;
}
