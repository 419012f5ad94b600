// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/wait_for_user.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/ending_platform.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("wait_for_user: a stream is neither queried nor waited for if the process is ending") {
    sim_node           node;
    sim_stream         s;
    sim_resource const device;
    int const          before = doubles::ending_platform::queries;
    doubles::keep_busy(s);
    CHECK(wait_for_user<doubles::ending_platform>(s, device));
    CHECK(doubles::ending_platform::queries == before);
    CHECK_FALSE(s.done());
}

TEST_CASE("wait_for_user: the host waits for the stream, unless it is being captured") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             s;
    sim_resource const     device;
    doubles::keep_busy(s);
    CHECK(wait_for_user<sim_platform>(s, device));
    CHECK(s.done());
    sim_graph::begin(s);
    CHECK_FALSE(wait_for_user<sim_platform>(s, device));
    CHECK_NOTHROW((void)sim_graph::end(s)); // a wait would have broken the capture
    CHECK(told.count() == 0);
}
