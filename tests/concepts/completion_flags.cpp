// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/completion_flags.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

struct marking_platform {
    using stream = int;
    static bool mark(stream, std::uint32_t* where, std::uint32_t value) {
        *where = value;
        return true;
    }
};

struct no_marks {
    using stream = int;
};

} // namespace

TEST_CASE("completion_flags: a platform has completion flags or not") {
    CHECK(completion_flags<marking_platform>);
    CHECK(completion_flags<sim_platform>);
    CHECK_FALSE(completion_flags<no_marks>);
    std::uint32_t here = 0;
    CHECK(marking_platform::mark(0, &here, 7));
    CHECK(here == 7);
}
