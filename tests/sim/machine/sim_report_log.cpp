// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_report_log.hpp> // first: the header stands alone

#include <vram/sim/sim_launch.hpp>
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_pinned_resource.hpp>
#include <vram/sim/sim_resource.hpp>
#include <vram/sim/sim_stream.hpp>
#include <vram/sim/sim_touch.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <source_location>
#include <string>
#include <vector>

using namespace vram;

namespace {

constexpr sim_options quiet_log{.on_report = sim_on_report::collect};

/// Two streams that write one block in turns, without a wait.
struct log_race {
    explicit log_race(int rounds) {
        for (int i = 0; i < rounds; ++i) {
            sim_launch(one, {.name = "scale", .writes = {{p, 64}}}, here);
            sim_launch(two, {.name = "add", .writes = {{p, 64}}}, there);
            if (i % 64 == 63) { one.synchronize(), two.synchronize(); }
        }
    }
    ~log_race() {
        one.synchronize();
        two.synchronize();
        memory.deallocate_sync(p, 64);
    }
    std::source_location here = std::source_location::current(), there = next_line();
    sim_resource         memory;
    sim_stream           one, two;
    void*                p = memory.allocate_sync(64);

    static std::source_location next_line() { return std::source_location::current(); }
};

} // namespace

TEST_CASE("sim_report_log: a mistake that is repeated is one report with a count") {
    sim_node       node{quiet_log};
    log_race const rounds{1000};
    auto const     all = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::race);
    CHECK(all[0].count > 1000); // each write, in both orders, except after the waits
    CHECK(all[0].text().find("it occurred " + std::to_string(all[0].count) + " times") !=
          std::string::npos);
    CHECK(node.take_reports().size() == 1);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_report_log: without merging, each occurrence is a report") {
    sim_options each   = quiet_log;
    each.merge_reports = false;
    sim_node       node{each};
    log_race const rounds{2};
    CHECK(node.take_reports().size() == 3);
}

TEST_CASE("sim_report_log: after take_reports, the same mistake is a new report") {
    sim_node node{quiet_log};
    for (int i = 0; i < 2; ++i) {
        log_race const rounds{1};
        auto const     all = node.take_reports();
        REQUIRE(all.size() == 1);
        CHECK(all[0].count == 1);
    }
}

TEST_CASE("sim_report_log: the key of a race has the sorted lines and no numbers of the run") {
    std::string keys[2];
    for (std::string& key : keys) {
        sim_node       node{quiet_log};
        log_race const rounds{1};
        key = node.take_reports().at(0).key();
    }
    CHECK(keys[0] == keys[1]);
    CHECK(keys[0].starts_with("race: sim_report_log.cpp:"));
    CHECK(keys[0].find('/') == std::string::npos);
}

TEST_CASE("sim_report_log: reports are ignored by key or by predicate, and counted") {
    std::string key;
    {
        sim_node       node{quiet_log};
        log_race const rounds{1};
        key = node.take_reports().at(0).key();
    }
    {
        sim_node node{quiet_log};
        node.ignore(key);
        log_race const rounds{1};
        CHECK(node.reports().empty());
        CHECK(node.unchecked().ignored == 1);
        CHECK(node.unchecked().text() == "not checked: 1 ignored reports");
    }
    sim_node node{quiet_log};
    node.ignore([](sim_report const& r) { return std::string{r.first.name} == "scale"; });
    log_race const rounds{2};
    CHECK(node.reports().size() == 1); // the race of "scale" with an earlier "add"
    CHECK(node.unchecked().ignored == 2);
}

TEST_CASE("sim_report_log: a key also ignores reports that repeat a stored one") {
    sim_node   node{quiet_log};
    auto const again = [] { log_race const rounds{1}; };
    again();
    std::string const key = node.reports().at(0).key();
    again();
    CHECK(node.reports().at(0).count == 2);
    node.ignore("another key");
    again();
    CHECK(node.reports().at(0).count == 3);
    node.ignore(key);
    again();
    CHECK(node.reports().size() == 1);
    CHECK(node.reports().at(0).count == 3);
    CHECK(node.unchecked().ignored == 1);
}

TEST_CASE("sim_report_log: an ignored key that no report had is listed") {
    sim_node node{quiet_log};
    node.ignore("race: app.cpp:12, app.cpp:34");
    CHECK(node.unchecked().text() == "everything was checked; no report had the ignored key "
                                     "\"race: app.cpp:12, app.cpp:34\"");
    { log_race const rounds{1}; }
    std::string const key = node.take_reports().at(0).key();
    node.ignore(key);
    CHECK(node.unchecked().unused_keys.size() == 2);
    log_race const rounds{1};
    node.ignore(key); // the key stays used
    CHECK(node.unchecked().unused_keys == std::vector<std::string>{"race: app.cpp:12, app.cpp:34"});
    CHECK(node.unchecked().text() == "not checked: 1 ignored reports; no report had the ignored "
                                     "key \"race: app.cpp:12, app.cpp:34\"");
}

TEST_CASE("sim_report_log: an expected report is swallowed, also if it would be thrown") {
    for (sim_on_report const how : {sim_on_report::collect, sim_on_report::throw_it}) {
        sim_node   node{{.on_report = how}};
        sim_expect race{sim_mistake::race};
        { log_race const rounds{2}; }
        CHECK(race.count() == 3);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("sim_report_log: an expected report that does not occur is reported") {
    sim_node node{quiet_log};
    {
        sim_expect const race{sim_mistake::race};
        sim_expect const other{"race: a.cpp:1, b.cpp:2"};
        log_race const   rounds{1};
    }
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::not_reported);
    CHECK(all[0].missing.find("race: a.cpp:1, b.cpp:2") != std::string::npos);
    CHECK(all[0].key().starts_with("expected report that did not occur: sim_report_log.cpp:"));
}

TEST_CASE("sim_report_log: the sink gets each occurrence, of nodes that print") {
    static std::vector<std::size_t> counts;
    counts.clear();
    sim_report_sink const before =
        set_sim_report_sink([](sim_report const& r) { counts.push_back(r.count); });
    {
        sim_node       node;
        log_race const rounds{2};
        (void)node.take_reports();
    }
    {
        sim_node       node{quiet_log};
        log_race const rounds{2};
        (void)node.take_reports();
    }
    set_sim_report_sink(before);
    CHECK(counts == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("sim_report_log: the node counts operations that it could not check") {
    sim_node   node{quiet_log};
    sim_stream s;
    CHECK(node.unchecked().text() == "everything was checked");
    sim_launch(s, {.name = "no memory"});
    sim_call_host(s, [](void*) {}, nullptr);
    char here[64] = {};
    sim_touch({here, 64}, sim_access::write);
    s.synchronize();
    CHECK(node.unchecked().kernels == 1);
    CHECK(node.unchecked().host_functions == 1);
    CHECK(node.unchecked().pageable == 1);
    CHECK(node.unchecked().text() == "not checked: 1 kernels without declared memory, 1 host "
                                     "functions without declared memory, 1 accesses to pageable "
                                     "memory");
}

TEST_CASE("sim_report_log: an access that could not be recorded ends the reports of races") {
    sim_node            node{quiet_log};
    sim_pinned_resource mr;
    char* const         p = static_cast<char*>(mr.allocate_sync(4096));
    sim_stream          one, two;
    sim_launch(one, {.writes = {{p, 4096}}});
    for (std::uint64_t n = 1; node.unchecked().orders == 0 && n < 200; ++n) {
        doubles::bombing armed{n};
        try {
            sim_launch(one, {.writes = {{p + n, 1}, {p + 2048 + n, 1}}});
        } catch (std::bad_alloc const&) {} // the launch failed: the stream has no such work
        (void)armed.defuse();
    }
    CHECK(node.unchecked().orders == 1);
    sim_launch(two, {.writes = {{p, 4096}}}); // in conflict with the first kernel
    CHECK(node.reports().empty());
    CHECK(node.unchecked().text() == "not checked: 1 orders and accesses without host memory");
    sim_device{}.synchronize();
    mr.deallocate_sync(p, 4096);
}
