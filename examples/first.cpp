// SPDX-License-Identifier: Apache-2.0
// The program of the README (project/app.cu) on the simulated device: it needs no GPU, and the
// device checks every access.

// [first]
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

int main() {
    using namespace vram;
    sim_node                           node;
    sim_stream                         stream;
    pool<stream_ordered<sim_resource>> memory;
    auto                               sums = make_array<float>(memory, stream, 10);

    auto fill = [](std::span<float> to, std::size_t index) -> std::size_t {
        std::ranges::fill(to, static_cast<float>(index));
        return index < 10 ? to.size() : 0;
    };
    for (auto& batch : loader{typed<float>(fill), stream, {.batch_bytes = 4_MiB}}) {
        auto const      x   = batch.span<float>();
        auto const      sum = sums.span().subspan(batch.index(), 1);
        sim_range const in{x.data(), x.size_bytes()}, out{sum.data(), sum.size_bytes()};
        sim_launch(stream, {.name = "twice", .reads = {in}, .writes = {in}}, [=] {
            for (float& value : sim_view(x)) { value *= 2; }
        });
        sim_launch(stream, {.name = "sum", .reads = {in}, .writes = {out}}, [=] {
            auto const values = sim_view(x);
            sim_view(sum)[0]  = std::accumulate(values.begin(), values.end(), 0.0F);
        });
    }
    std::fputs(report(memory).c_str(), stdout);
    expects(sums.get(9) == 2 * 9 * 1024 * 1024, "batch 9 is summed");
    expects(node.reports().empty(), "the device found no error");
}
// [/first]
