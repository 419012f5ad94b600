// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_change_checks.hpp> // first: the header must stand alone

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace vram;

namespace {

constexpr sim_checks no_races{.races = false};

/// Writes `p` on the stream.
void write_on(sim_stream const& s, void* p) { sim_launch(s, {.writes = {{p, 64}}}); }

} // namespace

TEST_CASE("sim_change_checks: order that arose while races were not checked is not missed") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   a, b;
    sim_event    e;
    void* const  p = memory.allocate_sync(64);
    write_on(a, p);
    node.set_checks(no_races);
    e.record(a);
    e.wait(b);
    node.set_checks({});
    write_on(b, p);
    b.synchronize();
    memory.deallocate_sync(p, 64);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_change_checks: a mistake with both sides in the checked part is reported") {
    sim_node     node{{.checks = no_races, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   a, b;
    void* const  p = memory.allocate_sync(64); // has no access history yet
    write_on(a, p);
    write_on(b, p);
    CHECK(node.reports().empty());
    node.set_checks({});
    write_on(a, p);
    CHECK(node.reports().empty());
    write_on(b, p);
    REQUIRE(node.reports().size() == 1);
    CHECK(node.take_reports().at(0).kind == sim_mistake::race);
    a.synchronize();
    b.synchronize();
    memory.deallocate_sync(p, 64);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_change_checks: a free of memory that was used before is correct") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   a, b;
    void* const  p = memory.allocate_sync(64);
    write_on(a, p);
    node.set_checks(no_races);
    a.synchronize();
    node.set_checks({});
    memory.deallocate_sync(p, 64);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_change_checks: blocks of a pool are checked like others") {
    for (sim_checks const& off :
         {no_races, sim_checks{.races = false, .bounds = false, .residency = false}}) {
        sim_node    node{{.on_report = sim_on_report::collect}};
        sim_stream  a, b;
        pool        memory{stream_ordered{sim_resource{}}};
        void* const p = memory.allocate(a, 64);
        write_on(a, p);
        node.set_checks(off);
        void* const q = memory.allocate(a, 64);
        write_on(a, q);
        a.synchronize();
        memory.deallocate(b, p, 64);
        node.set_checks({});
        void* const again = memory.allocate(b, 64);
        write_on(b, q);
        CHECK(node.reports().empty());
        write_on(a, q);
        // Without any check, the allocation of `q` was not recorded.
        CHECK(node.take_reports().size() == (off.bounds ? 1 : 0));
        a.synchronize();
        b.synchronize();
        memory.deallocate(b, again, 64);
        memory.deallocate(a, q, 64);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("sim_change_checks: a wait for a value that is queued before the switch is an order") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource pinned;
    sim_stream          a, b;
    void* const         p    = memory.allocate_sync(64);
    auto* const         word = static_cast<std::uint32_t*>(pinned.allocate_sync(4));
    *word                    = 0;
    node.set_checks(no_races);
    sim_wait_value(b, word, 1);
    node.set_checks({});
    write_on(a, p);
    sim_write_value(a, word, 1);
    write_on(b, p);
    b.synchronize();
    memory.deallocate_sync(p, 64);
    pinned.deallocate_sync(word, 4);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_change_checks: a write while no access was recorded is no uninitialised read") {
    for (bool const bounds_first : {false, true}) {
        CAPTURE(bounds_first);
        sim_node     node{{.on_report = sim_on_report::collect}};
        sim_resource memory;
        sim_stream   s;
        void* const  p    = memory.allocate_sync(64);
        auto const   read = [&](void* at) { sim_launch(s, {.reads = {{at, 64}}}); };
        node.set_checks({.races = false, .bounds = false, .residency = false});
        write_on(s, p);
        if (bounds_first) { node.set_checks(no_races); }
        node.set_checks({.races = false, .uninitialised = true});
        read(p);
        CHECK(node.reports().empty());
        void* const q = memory.allocate_sync(64);
        read(q);
        REQUIRE(node.reports().size() == 1);
        CHECK(node.take_reports().at(0).kind == sim_mistake::uninitialised_read);
        s.synchronize();
        memory.deallocate_sync(p, 64);
        memory.deallocate_sync(q, 64);
    }
}

TEST_CASE("sim_change_checks: the check for unwritten memory works without all other checks") {
    sim_checks none{.races = false, .declarations = false, .bounds = false};
    none.residency = none.frees = none.leaks = false;
    sim_checks only                          = none;
    only.uninitialised                       = true;
    sim_node     node{{.checks = only, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    void* const  p    = memory.allocate_sync(64);
    auto const   read = [&](void* at) { sim_launch(s, {.reads = {{at, 64}}}); };
    read(p);
    REQUIRE(node.reports().size() == 1);
    CHECK(node.take_reports().at(0).kind == sim_mistake::uninitialised_read);
    write_on(s, p);
    read(p);
    CHECK(node.reports().empty());
    void* const q = memory.allocate_sync(64);
    node.set_checks(none);
    write_on(s, q); // is not recorded
    node.set_checks(only);
    read(q);
    CHECK(node.reports().empty());
    s.synchronize();
    memory.deallocate_sync(p, 64);
    memory.deallocate_sync(q, 64);
}

TEST_CASE("sim_change_checks: after a lost order, only what follows the switch is checked") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   a, b;
    void* const  p = memory.allocate_sync(64);
    write_on(a, p);
    node.machine().checker.lose_order();
    write_on(b, p);
    node.set_checks({});
    write_on(a, p); // may follow the write on `b` by the lost order
    CHECK(node.reports().empty());
    write_on(b, p);
    REQUIRE(node.reports().size() == 1);
    CHECK(node.take_reports().at(0).kind == sim_mistake::race);
    CHECK(node.unchecked().orders == 1);
    a.synchronize();
    b.synchronize();
    memory.deallocate_sync(p, 64);
    CHECK(node.reports().empty());
}
