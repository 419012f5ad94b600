// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/is_default_stream.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

struct platform_that_says {
    struct stream {
        int number;
    };
    static bool is_default_stream(stream s) { return s.number < 3; }
};

} // namespace

TEST_CASE(
    "is_default_stream: the platform decides if it can, and otherwise a default view is one") {
    CHECK(is_default_stream<platform_that_says>({2}));
    CHECK_FALSE(is_default_stream<platform_that_says>({3}));
    sim_node         node;
    sim_stream const proper;
    CHECK(is_default_stream<sim_platform>({}));
    CHECK_FALSE(is_default_stream<sim_platform>(proper));
}
