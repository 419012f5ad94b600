// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_managed_resource.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

static_assert(has_property<sim_managed_resource, host_accessible>);

TEST_CASE("sim_managed_resource: host and device use it, and a missing wait is reported") {
    sim_node             node{{.on_report = sim_on_report::collect}};
    sim_managed_resource managed;
    sim_stream           s;
    auto* const          m = static_cast<int*>(managed.allocate_sync(4));
    *m                     = 20;
    sim_touch({m, 4}, sim_access::write);
    sim_launch(s, {.reads = {{m, 4}}, .writes = {{m, 4}}}, [=] { *m += 1; });
    s.synchronize();
    sim_touch({m, 4}, sim_access::read);
    CHECK(*m == 21);
    CHECK(node.reports().empty());
    sim_launch(s, {.writes = {{m, 4}}});
    sim_touch({m, 4}, sim_access::read);
    CHECK(node.reports().size() == 1);
    s.synchronize();
    managed.deallocate_sync(m, 4);
}

TEST_CASE("sim_managed_resource: it may be larger than the device") {
    sim_node const       node{{.capacity = 1_MiB}};
    sim_managed_resource managed;
    void* const          p = managed.allocate_sync(100_MiB);
    CHECK(p != nullptr);
    managed.deallocate_sync(p, 100_MiB);
}
