// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_launch.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/collecting.hpp" // status_of

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim_launch: a kernel computes on device memory through sim_view") {
    sim_node     node;
    sim_resource memory;
    sim_stream   s;
    auto* const  d = static_cast<int*>(memory.allocate_sync(40));
    std::span    all{d, 10};
    sim_fill(s, d, std::byte{0}, 40);
    for (int round = 0; round < 3; ++round) {
        sim_launch(s, {.name = "add", .reads = {all}, .writes = {all}, .duration = 2us}, [=] {
            for (int& x : sim_view(all)) { ++x; }
        });
    }
    int back[10] = {};
    sim_copy(s, back, d, 40);
    CHECK(back[9] == 3);
    CHECK(node.reports().empty());
    memory.deallocate_sync(d, 40);
}

TEST_CASE("sim_launch: a kernel without a callable takes its duration") {
    sim_node   node;
    sim_stream s;
    sim_launch(s, {.duration = 3us});
    s.synchronize();
    CHECK(node.now() == 3us);
}

TEST_CASE("sim_launch: with dereferenceable, the host may access device addresses") {
    sim_node     node{{.dereferenceable = true}};
    sim_resource memory;
    auto* const  d = static_cast<int*>(memory.allocate_sync(4));
    CHECK(sim_view(d) == d);
    *d = 3;
    memory.deallocate_sync(d, 4);
}

TEST_CASE("sim_launch: sim_view returns host addresses unchanged") {
    int local = 4;
    CHECK(sim_view(&local) == &local);
    CHECK(sim_view(static_cast<int*>(nullptr)) == nullptr);
}

TEST_CASE("sim_call_host: the function runs in stream order") {
    sim_node   node;
    sim_stream s;
    int        at = 0;
    sim_launch(s, {.duration = 5us}, [&] { at = 1; });
    sim_call_host(s, [](void* p) { *static_cast<int*>(p) *= 10; }, &at);
    sim_launch(s, {.duration = 5us}, [&] { at += 2; });
    s.synchronize();
    CHECK(at == 12);
}

namespace {

/// A node that collects its reports, with two streams, device memory `d` and pinned memory `h`.
struct launch_scene {
    ~launch_scene() {
        sim_device{}.synchronize();
        memory.deallocate_sync(d, 1024);
        pinned.deallocate_sync(h, 1024);
    }
    /// Returns the kinds of the reports since the last call.
    std::string kinds() {
        std::string all;
        for (sim_report const& r : node.take_reports()) { all += name(r.kind) + std::string{";"}; }
        return all;
    }

    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource pinned;
    sim_stream          a, b;
    void*               d = memory.allocate_sync(1024);
    void*               h = pinned.allocate_sync(1024);
};

} // namespace

TEST_CASE("sim_launch: atomic updates by two streams need no order, other accesses do") {
    launch_scene    t;
    sim_range const sum{t.d, 8};
    sim_launch(t.a, {.atomics = {sum}});
    sim_launch(t.b, {.atomics = {sum}});
    sim_launch(t.a, {.atomics = {sum}});
    CHECK(t.kinds().empty());
    sim_launch(t.b, {.reads = {sum}});
    CHECK(t.kinds() == "race;"); // with the last update on `a`
    sim_event e;
    e.record(t.b);
    e.wait(t.a);
    sim_launch(t.a, {.reads = {sum}});
    CHECK(t.kinds().empty());
    sim_launch(t.b, {.atomics = {sum}});
    CHECK(t.kinds() == "race;"); // with the read on `a`
    t.a.synchronize();
    t.b.synchronize();
    sim_launch(t.a, {.writes = {sum}});
    sim_launch(t.b, {.atomics = {sum}});
    CHECK(t.kinds() == "race;");
    sim_launch(t.a, {.writes = {sum}});
    CHECK(t.kinds() == "race;");
}

TEST_CASE("sim_launch: an atomic update of memory that was never written is reported") {
    sim_node     node{{.checks = {.uninitialised = true}, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   s;
    void* const  d = memory.allocate_sync(512);
    sim_launch(s, {.atomics = {{d, 4}}});
    CHECK(node.take_reports().size() == 1);
    sim_fill(s, d, std::byte{0}, 512);
    sim_launch(s, {.atomics = {{d, 4}}});
    s.synchronize();
    CHECK(node.reports().empty());
    memory.deallocate_sync(d, 512);
}

TEST_CASE("sim_launch: a kernel may view memory that it updates atomically") {
    launch_scene t;
    auto* const  n = static_cast<int*>(t.d);
    sim_fill(t.a, n, std::byte{0}, 4);
    sim_launch(t.a, {.atomics = {{n, 4}}}, [=] { ++*sim_view(n); });
    t.a.synchronize();
    CHECK(*sim_view(n) == 1);
    CHECK(t.kinds().empty());
}

TEST_CASE("sim_call_host: declared accesses are checked, in the order of the stream") {
    launch_scene t;
    sim_copy(t.a, t.h, t.d, 1024);
    sim_call_host(t.a, sim_host_work{.name = "sum", .reads = {{t.h, 1024}}}, [] {});
    CHECK(t.kinds().empty());
    sim_call_host(t.b, sim_host_work{.name = "other", .writes = {{t.h, 8}}}, [] {});
    CHECK(t.kinds() == "race;"); // with the last of `a`, `sum`
    sim_touch({t.h, 8}, sim_access::read);
    CHECK(t.kinds() == "race;"); // with `other`
    t.b.synchronize();
    t.a.synchronize();
    sim_touch({t.h, 1024}, sim_access::write);
    CHECK(t.kinds().empty());
    sim_call_host(t.a, sim_host_work{.reads = {{t.d, 8}}}, [] {});
    CHECK(t.kinds() == "host access to device memory;");
}

TEST_CASE("sim_call_host: accesses to pageable memory race with those of the host") {
    launch_scene     t;
    std::vector<int> sums(4);
    sim_range const  all{sums.data(), sums.size() * sizeof(int)};
    sim_touch(all, sim_access::write); // the call orders this before the function
    sim_call_host(t.a, sim_host_work{.writes = {all}}, [&] { sums[0] = 1; });
    sim_touch({sums.data() + 2, 4}, sim_access::read);
    CHECK(t.kinds() == "race;");
    t.a.synchronize();
    sim_touch(all, sim_access::read);
    CHECK(sums[0] == 1);
    sim_launch(t.a, {.reads = {all}});
    CHECK(t.kinds() == "device access to pageable memory;");
}

TEST_CASE("sim_call_host: a declared host function takes its duration") {
    launch_scene t;
    sim_call_host(t.a, sim_host_work{.duration = 30us}, [] {});
    t.a.synchronize();
    CHECK(t.node.now() == 30us);
}

namespace {

/// A node with two devices, a stream and memory on each.
struct ranks_scene {
    ~ranks_scene() {
        for (int i : {0, 1}) { sim_device{i}.synchronize(); }
        memory0.deallocate_sync(x, 1024);
        memory1.deallocate_sync(y, 1024);
    }
    std::vector<sim_report> reports() { return node.take_reports(); }

    sim_node         node{{.devices = 2, .on_report = sim_on_report::collect}};
    sim_resource     memory0{sim_device{0}}, memory1{sim_device{1}};
    sim_stream       s0{sim_device{0}}, s1{sim_device{1}};
    void*            x = memory0.allocate_sync(1024);
    void*            y = memory1.allocate_sync(1024);
    sim_communicator all{2};
};

} // namespace

TEST_CASE("sim_collective: the ranks meet, and run for the longest duration") {
    ranks_scene t;
    sim_launch(t.s0, {.duration = 30us});
    sim_collective(t.s0, t.all, 0, {.name = "sum", .duration = 5us});
    sim_collective(t.s1, t.all, 1, {.name = "sum", .duration = 7us});
    t.s1.synchronize();
    CHECK(t.node.now() == 37us);
    CHECK(t.all.ranks() == 2);
    CHECK(t.reports().empty());
}

TEST_CASE("sim_collective: a part costs as much as a launch, and has the latency of a kernel") {
    sim_options o    = doubles::collecting();
    o.devices        = 2;
    o.kernel_latency = 2us;
    o.kernels_share  = true; // has no effect on a collective
    o.costs.launch   = 3us;
    sim_node         node{o};
    sim_stream const s0{sim_device{0}}, s1{sim_device{1}};
    sim_communicator all{2};
    sim_collective(s0, all, 0, {.name = "sum", .duration = 5us});
    CHECK(node.now() == 3us);
    sim_collective(s1, all, 1, {.name = "sum", .duration = 7us});
    CHECK(node.now() == 6us);
    s0.synchronize();
    CHECK(node.now() == 15us);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_collective: work before one rank's part happens before work after another's") {
    ranks_scene         t;
    sim_pinned_resource pinned;
    void* const         h = pinned.allocate_sync(1024);
    SUBCASE("the rank that waits is queued last") {
        sim_copy(t.s0, h, t.x, 1024);
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
        sim_copy(t.s1, t.y, h, 1024);
        CHECK(t.reports().empty());
    }
    SUBCASE("the rank that waits is queued first") {
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
        sim_copy(t.s1, t.y, h, 1024);
        sim_copy(t.s0, h, t.x, 1024);
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        CHECK(t.reports().empty());
    }
    SUBCASE("work after the collective is not ordered") {
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
        sim_copy(t.s1, t.y, h, 1024);
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        sim_copy(t.s0, h, t.x, 1024);
        CHECK(t.reports().size() == 1);
    }
    t.s0.synchronize();
    t.s1.synchronize();
    pinned.deallocate_sync(h, 1024);
}

TEST_CASE("sim_collective: different orders on two ranks are a deadlock, with both orders") {
    ranks_scene      t;
    sim_communicator other{2};
    SUBCASE("of one communicator") {
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        sim_collective(t.s0, t.all, 0, {.name = "gather"});
        sim_collective(t.s1, t.all, 1, {.name = "gather"});
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
    }
    SUBCASE("of two communicators on one stream for each device") {
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        sim_collective(t.s0, other, 0, {.name = "gather"});
        sim_collective(t.s1, other, 1, {.name = "gather"});
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
    }
    SUBCASE("of two communicators on two streams, with one kernel at a time") {
        sim_stream const second{sim_device{1}};
        sim_collective(t.s0, t.all, 0, {.name = "sum"});
        sim_collective(t.s0, other, 0, {.name = "gather"});
        sim_collective(second, other, 1, {.name = "gather"});
        sim_collective(t.s1, t.all, 1, {.name = "sum"});
    }
    t.node.machine().stuck_patience = 20ms;
    sim_device{0}.synchronize();
    sim_device{1}.synchronize();
    auto const all = t.reports();
    REQUIRE(!all.empty());
    CHECK(all.front().kind == sim_mistake::deadlock);
    CHECK(all.front().text().find("`sum`") != std::string::npos);
    CHECK(all.front().text().find("`gather`") != std::string::npos);
}

TEST_CASE("sim_collective: a rank that never comes is a deadlock; errors are thrown") {
    ranks_scene t;
    CHECK_THROWS_AS(sim_collective(t.s0, t.all, 2, {}), sim_error);
    sim_graph::begin(t.s0);
    CHECK_THROWS_AS(sim_collective(t.s0, t.all, 0, {}), sim_error);
    auto const graph = sim_graph::end(t.s0);
    sim_collective(t.s0, t.all, 0, {.name = "sum"});
    t.node.machine().stuck_patience = 20ms;
    t.s0.synchronize();
    REQUIRE(t.node.reports().size() == 1);
    CHECK(t.reports().front().text().find("waits for the other ranks") != std::string::npos);
}

TEST_CASE("sim_collective: a rank whose call was refused may queue the collective again") {
    ranks_scene      t;
    sim_stream const captured{sim_device{0}, {.blocking = true}};
    auto const       legacy = sim_stream_view::legacy(sim_device{0});
    sim_graph::begin(captured);
    CHECK(doubles::status_of([&] { sim_collective(legacy, t.all, 0, {.name = "gather"}); }) ==
          sim_status::capture_implicit);
    CHECK_THROWS_AS((void)sim_graph::end(captured), sim_error);
    sim_collective(legacy, t.all, 0, {.name = "sum"});
    sim_collective(t.s1, t.all, 1, {.name = "sum", .duration = 7us});
    t.node.machine().stuck_patience = 20ms;
    t.s1.synchronize();
    CHECK(t.node.now() == 7us);
    CHECK(t.reports().empty());
}

TEST_CASE("sim_collective: a host allocation that fails leaves the ranks in step") {
    bool more = true;
    for (std::uint64_t nth = 1; more; ++nth) {
        ranks_scene t;
        t.node.machine().stuck_patience = 20ms;
        more                            = false;
        {
            doubles::bombing const armed{nth};
            auto const             queue = [&](sim_stream const& s, std::size_t rank, void* p) {
                for (bool again = true; again;) {
                    again = false;
                    try {
                        sim_collective(s, t.all, rank,
                                                   {.name = "sum", .writes = {{p, 1024}}, .duration = 5us});
                    } catch (std::bad_alloc const&) { again = more = true; }
                }
            };
            queue(t.s0, 0, t.x);
            queue(t.s1, 1, t.y);
        }
        CHECK(t.all.state().by_rank[0].size() == 1);
        CHECK(t.all.state().by_rank[1].size() == 1);
        sim_launch(t.s0, {.writes = {{t.x, 1024}}, .duration = 1us});
        t.s0.synchronize();
        CHECK(t.node.now() == 6us);
        CHECK(t.reports().empty());
        REQUIRE(nth < 200);
    }
}
