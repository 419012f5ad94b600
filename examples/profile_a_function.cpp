// SPDX-License-Identifier: Apache-2.0
// The time on the device and the memory of the parts of a training step, as a table.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <cstdio>

using namespace vram;
using namespace std::chrono_literals;

namespace {

using stack = statistics<pool<stream_ordered<sim_resource>>>; // on a GPU: cuda_resource

void forward(stack& memory, sim_stream_view stream) {
    buffer const activations{memory, stream, 48_MiB};
    sim_launch(stream, {.name = "forward", .duration = 3ms});
}

void backward(stack& memory, sim_stream_view stream) {
    buffer const gradients{memory, stream, 96_MiB};
    sim_launch(stream, {.name = "backward", .duration = 6ms});
}

// [function]
void train_step(profile<sim_platform>& times, stack& memory, sim_stream_view stream) {
    timed const whole{times, stream}; // named like the function
    {
        timed const part{times, stream, "forward", memory};
        forward(memory, stream);
    }
    timed const part{times, stream, "backward", memory};
    backward(memory, stream);
}
// [/function]

} // namespace

int main() {
    sim_node   node;
    sim_stream stream;
    stack      memory;
    // [table]
    profile times{memory};
    for (int i = 0; i < 10; ++i) { train_step(times, memory, stream); }
    std::fputs(times.text().c_str(), stdout); // waits for the device
    // [/table]

    // [rows]
    profile_row::times on_device;
    for (profile_row const& row : times.rows()) {
        if (row.depth == 0) { on_device.merge(row.device); }
    }
    expects(on_device.total == 90'000'000, "10 steps of 9 ms");
    // [/rows]
}
