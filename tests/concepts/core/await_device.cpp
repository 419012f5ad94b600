// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/await_device.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {

struct counting_platform {
    using device = int;
    static void       synchronize(int) { ++count; }
    static inline int count = 0;
};

} // namespace

TEST_CASE("await_device: a platform without await_all is synchronised") {
    counting_platform::count = 0;
    await_device<counting_platform>(0);
    CHECK(counting_platform::count == 1);
}

TEST_CASE("await_device: on the simulator it waits for all work, also during a capture") {
    sim_node         node;
    sim_stream const busy, captured;
    sim_launch(busy, {.duration = 5us});
    sim_graph::begin(captured);
    await_device<sim_platform>(sim_device{});
    CHECK(node.now() >= 5us);
    CHECK(sim_graph::end(captured).size() == 0); // the capture is not broken
}
