// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_work.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim_work: the thread's clock advances while the device works") {
    sim_node const node;
    sim_stream     s;
    sim_launch(s, {.duration = 5us});
    sim_work(3us);
    CHECK_FALSE(s.done());
    sim_work(2us);
    CHECK(s.done());
}
