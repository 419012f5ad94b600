// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_register.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("sim_register: registered memory is copied like pinned memory") {
    sim_node          node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    sim_resource      memory;
    sim_stream        s;
    std::vector<char> host(100000, 4);
    void* const       d = memory.allocate_sync(100000);
    {
        sim_register const pin{{host.data(), host.size()}};
        sim_copy(s, d, host.data(), host.size());
        CHECK(node.now() == 0us);
        s.synchronize();
        CHECK(node.now() == 100us);
    }
    CHECK(*sim_view(static_cast<char*>(d)) == 4);
    memory.deallocate_sync(d, 100000);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_register: a refusal to pin and an invalid range are errors") {
    sim_node            node;
    sim_pinned_resource pinned;
    char                local[64];
    node.faults().at(sim_call_kind::pin, 1);
    CHECK_THROWS_AS((sim_register{{local, 64}}), sim_error);
    sim_register const pin{{local, 64}};
    CHECK_THROWS_AS((sim_register{{local + 32, 8}}), sim_error); // overlaps
    CHECK_THROWS_AS((sim_register{{local, 0}}), sim_error);
    void* const p = pinned.allocate_sync(8);
    CHECK_THROWS_AS((sim_register{{p, 8}}), sim_error);
    pinned.deallocate_sync(p, 8);
}

TEST_CASE("sim_register: unregistering during a copy waits, and is reported") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    char         local[64];
    void* const  d = memory.allocate_sync(64);
    {
        sim_register       a{{local, 64}};
        sim_register const b{std::move(a)};
        sim_copy(s, d, local, 64);
    }
    CHECK(node.reports().size() == 1);
    CHECK(node.reports()[0].kind == sim_mistake::free_before_last_use);
    CHECK(s.done());
    s.synchronize();
    memory.deallocate_sync(d, 64);
}
