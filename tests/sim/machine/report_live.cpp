// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/report_live.hpp> // first: the header must stand alone

#include <vram/probe/error_count.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>     // size_t
#include <string>      // string
#include <type_traits> // is_same_v
#include <vector>      // vector

#include <doctest/doctest.h>

using namespace vram;

namespace {

using leaking_source = stream_ordered<sim_resource>;

template <class Pool>
Pool leaking_pool() {
    if constexpr (std::is_same_v<Pool, slab<leaking_source>>) {
        return Pool{leaking_source{sim_resource{}}, 1000};
    } else {
        return Pool{leaking_source{sim_resource{}}};
    }
}

/// Allocates 1 and then twice 2 blocks, frees the first, and ends the pool, which reports one error.
/// Returns the reports of the node.
template <class Pool>
std::vector<sim_report> reports_of_leaking(sim_checks checks = {}, std::size_t bytes = 1000) {
    sim_node          node{{.checks = checks, .on_report = sim_on_report::collect}};
    error_count const errors;
    {
        sim_stream  s;
        Pool        memory = leaking_pool<Pool>();
        void* const freed  = memory.allocate(s, bytes);
        for (int i = 0; i < 2; ++i) {
            static_cast<void>(memory.allocate(s, bytes));
            static_cast<void>(memory.allocate_sync(bytes));
        }
        memory.deallocate(s, freed, bytes);
    }
    CHECK(errors.count() == 1); // the error sink gets the leak once, as without a report
    return node.take_reports();
}

} // namespace

TEST_CASE_TEMPLATE("report_live: a block that is live when its pool ends is a leak of its line", P,
                   pool<leaking_source>, slab<leaking_source>, binned<leaking_source>,
                   arena<leaking_source>) {
    auto const reports = reports_of_leaking<P>();
    REQUIRE(reports.size() == 2);
    for (sim_report const& r : reports) {
        CHECK(r.kind == sim_mistake::leak);
        CHECK(r.bytes == 1000);
        CHECK(r.count == 2);
        CHECK(r.first.where.line() > 0);
        CHECK(std::string{r.first.where.file_name()}.ends_with("report_live.cpp"));
        CHECK(r.text().find("it occurred 2 times") != std::string::npos);
        CHECK(r.text().find(r.block.resource) != std::string::npos);
    }
    CHECK(reports[0].first.where.line() != reports[1].first.where.line());
}

TEST_CASE("report_live: a large block of binned is a leak as well") {
    auto const reports = reports_of_leaking<binned<leaking_source>>({}, 64_MiB);
    REQUIRE(reports.size() == 2);
    CHECK(reports[0].kind == sim_mistake::leak);
    CHECK(reports[0].bytes == 64_MiB);
}

TEST_CASE("report_live: leaks are found without the check for races, and not without any check") {
    sim_checks checks{.races = false};
    CHECK(reports_of_leaking<pool<leaking_source>>(checks).size() == 2);
    checks.leaks = false;
    CHECK(reports_of_leaking<pool<leaking_source>>(checks).empty());
    checks = {.races = false, .bounds = false};
    CHECK(reports_of_leaking<pool<leaking_source>>(checks).empty());
}

TEST_CASE("report_live: after a time without checks, blocks may be unknown and none is reported") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        sim_stream  s;
        pool        memory{stream_ordered{sim_resource{}}};
        void* const p = memory.allocate(s, 1000);
        node.set_checks({.races = false, .bounds = false});
        memory.deallocate(s, p, 1000);
        node.set_checks({});
    }
    CHECK(node.reports().empty());
}

TEST_CASE("report_live: memory of a monotonic is no leak, nor is freed or cached memory") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        sim_stream s;
        monotonic  frame{stream_ordered{sim_resource{}}};
        pool       memory{stream_ordered{sim_resource{}}};
        static_cast<void>(frame.allocate(s, 1000));
        memory.deallocate(s, memory.allocate(s, 1000), 1000);
        memory.trim();
        memory.deallocate_sync(memory.allocate_sync(1000), 1000);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("report_live: of a pool over a pool, the block of the program alone is the leak") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        sim_stream s;
        slab       memory{pool{stream_ordered{sim_resource{}}}, 100};
        static_cast<void>(memory.allocate(s, 100));
    }
    auto const reports = node.reports();
    REQUIRE(reports.size() == 1);
    CHECK(std::string{reports[0].block.resource} == "slab");
    CHECK(reports[0].bytes == 100);
    CHECK(reports[0].text().find("from a `slab`") != std::string::npos);
    CHECK(reports[0].text().find("before the `slab` ends") != std::string::npos);
}

TEST_CASE("report_live: a refused free does not hide the leak of its block") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        sim_stream  s;
        pool        memory{stream_ordered{sim_resource{}}};
        void* const p = memory.allocate(s, 1000);
        memory.deallocate(s, p, 3000); // the pool refuses this size
    }
    std::size_t leaks = 0;
    for (sim_report const& r : node.reports()) { leaks += r.kind == sim_mistake::leak; }
    CHECK(leaks == 1);
}
