// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_interrupt.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace vram;

TEST_CASE("sim_interrupt: the function runs once, before the n-th call of this thread") {
    sim_node         node;
    sim_stream const s;
    sim_event        e;
    int              happened = 0;
    bool             captured = false;
    sim_interrupt::before(2, [&] {
        ++happened;
        captured = s.view().capturing(); // not counted
        CHECK(e.done());                 // never recorded
    });
    std::thread{[&] {
        for (int i = 0; i != 3; ++i) { (void)s.done(); }
    }}.join();
    CHECK(happened == 0);
    (void)s.view().capturing();
    CHECK(happened == 0);
    e.record(s);
    CHECK(happened == 1);
    e.record(s);
    e.record(s);
    CHECK(happened == 1);
    CHECK(sim_interrupt::end());
    sim_interrupt::before(3, [&] { ++happened; });
    e.record(s);
    CHECK_FALSE(sim_interrupt::end());
    for (int i = 0; i != 4; ++i) { e.record(s); }
    CHECK(happened == 1);
    CHECK_FALSE(captured);
}

TEST_CASE("sim_interrupt: the number 0 is refused, because no call has it") {
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS(sim_interrupt::before(0, [] {}), doubles::broken_contract);
    CHECK(sim_interrupt::end()); // there is none
}
