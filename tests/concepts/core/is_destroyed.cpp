// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/is_destroyed.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

struct platform_that_knows {
    struct stream {
        int number;
    };
    static bool ended(stream s) noexcept { return s.number < 3; }
};

} // namespace

TEST_CASE(
    "is_destroyed: the platform decides if it can, and otherwise no stream counts as destroyed") {
    CHECK(is_destroyed<platform_that_knows>({2}));
    CHECK_FALSE(is_destroyed<platform_that_knows>({3}));
    sim_node        node;
    sim_stream_view dead;
    {
        sim_stream const s;
        dead = s;
    }
    CHECK_FALSE(is_destroyed<sim_platform>(dead)); // a query of the stream throws
}
