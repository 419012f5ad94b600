// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/arena_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("arena_options: the defaults are shards by thread and no limit") {
    arena_options const o;
    CHECK(o.key == arena_key::thread);
    CHECK(o.max_size == unsatisfiable);
    CHECK(o.count == 0);
    CHECK(o.events == event_policy::lazy);
    CHECK_FALSE(o.graphs);
}
