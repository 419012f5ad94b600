// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_pool.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_pool: what waits for its free is the sum of what was freed in the program") {
    sim_pool pool;
    CHECK(pool.pending_bytes() == 0);
    pool.pending.push_back({.place = {}, .knows = {}, .bytes = 512});
    pool.pending.push_back({.place = {}, .knows = {}, .bytes = 1024});
    CHECK(pool.pending_bytes() == 1536);
    pool.pending.pop_front();
    CHECK(pool.pending_bytes() == 1024);
    CHECK(pool.maximum == unsatisfiable);
}
