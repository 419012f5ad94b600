// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/is_alias.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

struct platform_that_says {
    struct stream {
        int number;
    };
    static bool is_alias(stream s) { return s.number < 3; }
};

} // namespace

TEST_CASE("is_alias: the platform is asked, or else a default view is one") {
    CHECK(is_alias<platform_that_says>({2}));
    CHECK_FALSE(is_alias<platform_that_says>({3}));
    sim_node         node;
    sim_stream const proper;
    CHECK(is_alias<sim_platform>({}));
    CHECK_FALSE(is_alias<sim_platform>(proper));
}
