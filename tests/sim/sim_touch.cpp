// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_touch.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim_touch: permitted accesses of the host are not reported, nor is pageable memory") {
    sim_node             node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    int                  local = 0;
    void* const          p     = pinned.allocate_sync(8);
    void* const          m     = managed.allocate_sync(8);
    sim_touch({&local, 4}, sim_access::write);
    sim_touch({p, 8}, sim_access::write);
    sim_touch({m, 8}, sim_access::read);
    sim_touch({}, sim_access::read);
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 8);
    sim_touch({p, 1}, sim_access::read);
    CHECK(node.reports().size() == 1);
    managed.deallocate_sync(m, 8);
}

TEST_CASE("sim_work: the thread's clock advances while the device works") {
    sim_node const node;
    sim_stream     s;
    sim_launch(s, {.duration = 5us});
    sim_work(3us);
    CHECK_FALSE(s.done());
    sim_work(2us);
    CHECK(s.done());
}
