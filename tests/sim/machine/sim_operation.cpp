// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_operation.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_operation: a moment is over if its operation object was reused") {
    sim_operation op;
    op.number = 7;
    sim_moment const m{&op, 7};
    CHECK(m.pending());
    op.number = 0;
    CHECK_FALSE(m.pending());
    op.number = 8;
    CHECK_FALSE(m.pending());
    CHECK_FALSE(sim_moment{}.pending());
}
