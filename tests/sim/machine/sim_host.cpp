// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_host.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_host: a new step is not ordered before earlier joins") {
    sim_host h;
    h.slot = 2;
    h.advance();
    vector_clock joined;
    joined.join(h.vclock);
    h.advance();
    CHECK(joined.includes(2, 1));
    CHECK_FALSE(joined.includes(2, h.vclock[2]));
}

TEST_CASE("sim_host: a thread has a state on every node that it uses") {
    detail::self(1000001).device = 3;
    detail::self(1000002).device = 5;
    CHECK(detail::self(1000001).device == 3);
    CHECK(detail::self(1000002).device == 5);
    CHECK(detail::self(1000003).device == 0);
    CHECK(detail::self(1000003).host == nullptr);
}
