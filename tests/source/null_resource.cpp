// SPDX-License-Identifier: Apache-2.0
#include <vram/source/null_resource.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

template class vram::null_resource<>;
template class vram::null_resource<sim_platform>;

TEST_CASE("null_resource: it refuses every request, with the size") {
    null_resource<> mr;
    CHECK(mr.allocate_sync(0) == nullptr);
    CHECK(mr.allocate({}, 0) == nullptr);
    CHECK(mr.try_allocate_sync(1) == nullptr);
    CHECK(mr.try_allocate({}, 1) == nullptr);
    try {
        (void)mr.allocate({}, 100, 512);
        FAIL("nothing is there");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 100);
        CHECK(e.numbers().alignment == 512);
    }
    doubles::mishaps told;
    mr.deallocate_sync(nullptr, 0);
    mr.deallocate({}, nullptr, 0);
    CHECK(told.count() == 0);
}

TEST_CASE("null_resource: a free is reported as a foreign pointer") {
    null_resource<>  mr;
    doubles::mishaps told;
    int              anothers = 0;
    mr.deallocate_sync(&anothers, sizeof anothers);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    mr.deallocate({}, &anothers, sizeof anothers);
    CHECK(told.count(error_kind::foreign_pointer) == 2);
    CHECK(told.count() == 2);
    CHECK(told.pointer() == &anothers);
}

TEST_CASE("null_resource: it has every power, with empty results") {
    null_resource<> mr;
    CHECK_FALSE(mr.owns(&mr));
    CHECK(mr.usage() == memory_usage{});
    CHECK(mr.trim() == 0);
    mr.retire({});
    CHECK(mr == null_resource<>{});
}

TEST_CASE("null_resource: on the simulated device, a free is a report of the node") {
    sim_node                    node{{.on_report = sim_on_report::collect}};
    doubles::mishaps            told;
    null_resource<sim_platform> mr;
    int                         anothers = 0;
    mr.deallocate_sync(&anothers, sizeof anothers);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(node.reports().size() == 1);
}
