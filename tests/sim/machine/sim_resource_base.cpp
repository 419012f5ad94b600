// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_resource_base.hpp> // first: the header must stand alone

#include <vram/base/bytes.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;

template class vram::detail::sim_resource_base<sim_kind::device, sim_call_kind::allocate,
                                               property_set<device_accessible>>;

TEST_CASE("sim_resource_base: an allocation and a free are reported with their source locations") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    static_cast<void>(memory.allocate_sync(8));
    unsigned const line = __LINE__ - 1;
    node.finish();
    REQUIRE(node.reports().size() == 1);
    CHECK(std::string{node.reports()[0].first.where.file_name()}.find("sim_resource_base.cpp") !=
          std::string::npos);
    CHECK(node.reports()[0].first.where.line() == line);
}

TEST_CASE("sim_resource_base: a report of an earlier call is thrown before anything is allocated") {
    sim_node     node{{.on_report = sim_on_report::throw_it}};
    sim_resource memory;
    void* const  p = memory.allocate_sync(1024);
    memory.deallocate_sync(p, 1024);
    memory.deallocate_sync(p, 1024); // noticed, but not thrown out of a noexcept call
    CHECK_THROWS_AS(static_cast<void>(memory.allocate_sync(2048)), sim_race);
    CHECK(node.figures().used == 0);
    CHECK(node.take_reports().size() == 1);
}

TEST_CASE("sim_resource_base: with the capacity check and throw_it, a refusal throws a report") {
    sim_node node{
        {.capacity = 1_MiB, .checks = {.capacity = true}, .on_report = sim_on_report::throw_it}};
    sim_resource memory;
    CHECK_THROWS_AS(static_cast<void>(memory.allocate_sync(2_MiB)), sim_race);
    CHECK(node.figures().used == 0);
}

TEST_CASE("sim_resource_base: limiting over it does not count a free that is refused or fails") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    limiting               mr{sim_resource{}, 1_MiB};
    void* const            p = mr.allocate_sync(1000);
    node.faults().at(sim_call_kind::free, 1);
    mr.deallocate_sync(p, 1000); // fails
    CHECK(mr.used() == 1000);
    mr.deallocate_sync(p, 1000);
    mr.deallocate_sync(p, 1000); // double free
    CHECK(told.count() == 2);
    CHECK(mr.used() == 0);
}
