// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/arena_key.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("arena_key: the default is one shard per thread") {
    CHECK(arena_key{} == arena_key::thread);
    CHECK(arena_key::thread != arena_key::stream);
}
