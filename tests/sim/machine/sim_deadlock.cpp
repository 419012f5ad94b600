// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_deadlock.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <vector>

using namespace vram::detail;

TEST_CASE("sim_deadlock_victim: a thread at a gate is selected before one that waits for a lock") {
    int                          gate = 0;
    sim_host                     at_gate, at_lock, joining;
    std::vector<sim_host*> const all{&at_gate, &at_lock, &joining};
    at_gate.number = 1;
    at_lock.number = 2;
    joining.number = 3;
    CHECK(sim_deadlock_victim(all) == &joining); // none waits at a gate
    at_gate.gate       = &gate;
    at_lock.gate       = &gate;
    at_lock.locked_out = true;
    CHECK(sim_deadlock_victim(all) == &at_gate);
    CHECK(sim_deadlock_text(all) ==
          "host thread 1 waits at a gate, host thread 2 waits for a lock, "
          "host thread 3 waits for others to end");
}
