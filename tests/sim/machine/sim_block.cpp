// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_block.hpp> // first: the header must stand alone

#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_block: the end is begin plus bytes, and a new block is live") {
    sim_block b;
    b.begin = 4096;
    b.bytes = 100;
    CHECK(b.end() == 4196);
    CHECK_FALSE(b.freed);
    CHECK_FALSE(b.busy);
    CHECK(b.history.size() == 0);
}

TEST_CASE("sim_block: a leak of memory that was freed, but not returned, names the resource") {
    for (bool const freed : {true, false}) {
        sim_node       node{{.on_report = sim_on_report::collect}};
        stream_ordered memory{sim_resource{}};
        sim_stream     s;
        void* const    p = memory.allocate(s, 4096);
        if (freed) { memory.deallocate(s, p, 4096); }
        s.synchronize();
        node.finish();
        auto const all = node.take_reports();
        REQUIRE(all.size() == 1);
        CHECK(all[0].kind == sim_mistake::leak);
        CHECK((all[0].missing.find("trim the resource") != std::string::npos) == freed);
    }
}
