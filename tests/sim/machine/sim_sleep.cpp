// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_sleep.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("sim_sleep: only a thread whose time went on after its polls is woken") {
    sim_options options;
    options.costs.thread_wake = 5us;
    sim_node  node{options};
    sim_host  host;
    sim_sleep sleep{node.machine(), &host, 20us};
    sleep.woken();
    CHECK(host.clock == sim_time{0us});
    host.clock = 20us;
    sleep.woken();
    CHECK(host.clock == sim_time{20us});
    host.clock = 21us;
    sleep.woken();
    CHECK(host.clock == sim_time{26us});
    sleep.woken(); // notified before it ran
    CHECK(host.clock == sim_time{26us});
    host.clock = 27us;
    sleep.woken();
    CHECK(host.clock == sim_time{32us});
}

TEST_CASE(
    "sim_sleep: without limit a thread polls, and a thread outside simulated time is as it was") {
    sim_options options;
    options.costs.thread_wake = 5us;
    sim_node  node{options};
    sim_host  host;
    sim_sleep polls{node.machine(), &host, sim_time::max()};
    host.clock = 1h;
    polls.woken();
    CHECK(host.clock == sim_time{1h});
    sim_sleep none{node.machine(), nullptr, sim_time{}};
    none.woken();
    CHECK(node.now() == sim_time{0us});
}
