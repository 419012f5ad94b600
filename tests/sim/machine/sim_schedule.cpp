// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_schedule.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {
sim_options exact() {
    return {.host_bandwidth = 1_GB,
            .copy_latency   = sim_time{0},
            .on_report      = sim_on_report::collect,
            .trace          = true};
}
/// "name start-end ..." of everything that was done, in microseconds; copies without direction.
std::string story(sim_node& node) {
    std::string text;
    for (auto const& t : node.trace()) {
        std::string const name = t.name;
        text += (text.empty() ? "" : " ") + (name.starts_with("copy ") ? "copy" : name) + " " +
                std::to_string(t.start.count() / 1000) + "-" + std::to_string(t.end.count() / 1000);
    }
    return text;
}
} // namespace

TEST_CASE("sim_schedule: operations of one stream run in order") {
    sim_node   node{exact()};
    sim_stream s;
    sim_launch(s, {.name = "a", .duration = 5us});
    sim_launch(s, {.name = "b", .duration = 3us});
    s.synchronize();
    CHECK(story(node) == "a 0-5 b 5-8");
    CHECK(node.now() == 8us);
}

TEST_CASE(
    "sim_schedule: two streams share an engine with one slot, the earliest ready operation first") {
    sim_node   node{exact()};
    sim_stream s, t;
    sim_launch(s, {.name = "a", .duration = 5us});
    sim_launch(s, {.name = "b", .duration = 5us}); // ready at 5
    node.work(2us);
    sim_launch(t, {.name = "c", .duration = 5us}); // asked for later, ready at 2
    sim_device{}.synchronize();
    CHECK(story(node) == "a 0-5 c 5-10 b 10-15");
}

TEST_CASE("sim_schedule: with two slots two kernels run at the same time") {
    sim_options o   = exact();
    o.compute_slots = 2;
    sim_node   node{o};
    sim_stream s, t, u;
    sim_launch(s, {.name = "a", .duration = 5us});
    sim_launch(t, {.name = "b", .duration = 5us});
    sim_launch(u, {.name = "c", .duration = 5us});
    sim_device{}.synchronize();
    CHECK(story(node) == "a 0-5 b 0-5 c 5-10");
    CHECK(node.figures().busy(sim_engine::compute) == 10us);
    CHECK(node.figures().work[0] == 15us);
}

TEST_CASE("sim_schedule: effects happen in the order of simulated time, not of the calls") {
    sim_node         node{exact()};
    sim_options      o = exact();
    sim_stream       s, t;
    std::vector<int> order;
    sim_launch(s, {.duration = 9us}, [&] { order.push_back(1); });
    sim_call_host(t, [](void* p) { static_cast<std::vector<int>*>(p)->push_back(2); }, &order);
    sim_device{}.synchronize();
    CHECK(order == std::vector{2, 1});
}

TEST_CASE("sim_schedule: an operation that is queued later may be ready earlier") {
    sim_node            node{exact()};
    sim_resource        mr;
    sim_pinned_resource pinned;
    sim_stream          s, t;
    void* const         d = mr.allocate_sync(10000);
    void* const         h = pinned.allocate_sync(10000);
    sim_launch(s, {.name = "k", .duration = 50us});
    sim_copy(s, d, h, 4000);                            // waits for the kernel
    sim_copy(t, static_cast<char*>(d) + 4000, h, 6000); // the engine is free for it
    sim_device{}.synchronize();
    CHECK(story(node) == "copy 0-6 k 0-50 copy 50-54");
    mr.deallocate_sync(d, 10000);
    pinned.deallocate_sync(h, 10000);
}

TEST_CASE("sim_schedule: a prefetch with two slots overlaps exactly as computed") {
    // Four batches: copies of 10 us, kernels of 15 us, two slots. Copy i may start when kernel i-2
    // is done: copies 0-10, 10-20, 25-35, 40-50; kernels 10-25, 25-40, 40-55, 55-70.
    sim_node            node{exact()};
    sim_resource        mr;
    sim_pinned_resource pinned;
    sim_stream          copies, kernels;
    sim_event           copied[2], released[2];
    void*               d[2];
    void* const         h = pinned.allocate_sync(10000);
    sim_touch({h, 10000}, sim_access::write);
    for (void*& p : d) { p = mr.allocate_sync(10000); }
    for (int i = 0; i < 4; ++i) {
        int const slot = i % 2;
        released[slot].wait(copies);
        sim_copy(copies, d[slot], h, 10000);
        copied[slot].record(copies);
        copied[slot].wait(kernels);
        sim_launch(kernels, {.name = "use", .reads = {{d[slot], 10000}}, .duration = 15us});
        released[slot].record(kernels);
    }
    kernels.synchronize();
    CHECK(story(node) ==
          "copy 0-10 copy 10-20 use 10-25 copy 25-35 use 25-40 copy 40-50 use 40-55 use 55-70");
    CHECK(node.now() == 70us);
    sim_figures const f = node.figures();
    CHECK(f.busy(sim_engine::to_device) == 40us);
    CHECK(f.busy(sim_engine::compute) == 60us);
    CHECK(f.overlap() == 30us); // 10-20, 25-35, 40-50
    CHECK(f.busy(sim_set(sim_engine::compute, sim_engine::to_device)) == 70us);
    CHECK(f.bytes_to_device == 40000);
    CHECK(f.host_waits == 1);
    CHECK(f.host_waiting == 70us);
    CHECK(f.stream_waits == 6); // two of the eight came before any record
    CHECK(node.reports().empty());
    for (void* p : d) { mr.deallocate_sync(p, 10000); }
    pinned.deallocate_sync(h, 10000);
}

TEST_CASE("sim_schedule: without the wait for a released slot the timeline changes, and a race is "
          "reported") {
    sim_node            node{exact()};
    sim_resource        mr;
    sim_pinned_resource pinned;
    sim_stream          copies, kernels;
    sim_event           copied;
    void* const         d = mr.allocate_sync(10000);
    void* const         h = pinned.allocate_sync(10000);
    for (int i = 0; i < 2; ++i) {
        sim_copy(copies, d, h, 10000);
        copied.record(copies);
        copied.wait(kernels);
        sim_launch(kernels, {.name = "use", .reads = {{d, 10000}}, .duration = 15us});
    }
    sim_device{}.synchronize();
    CHECK(story(node) == "copy 0-10 copy 10-20 use 10-25 use 25-40");
    REQUIRE(node.reports().size() == 1);
    CHECK(std::string{node.reports()[0].first.name} == "use");
    mr.deallocate_sync(d, 10000);
    pinned.deallocate_sync(h, 10000);
}

TEST_CASE("sim_schedule: a program has the same trace in every run") {
    auto const run = [] {
        sim_node   node{exact()};
        sim_stream s[3];
        sim_event  e[3];
        sim_random random{5};
        for (int i = 0; i < 300; ++i) {
            auto const which = random.below(3), other = random.below(3);
            sim_launch(s[which],
                       {.name = "k", .duration = sim_time{static_cast<int>(random.below(5000))}});
            e[which].record(s[which]);
            e[other].wait(s[random.below(3)]);
            node.work(sim_time{static_cast<int>(random.below(2000))});
        }
        sim_device{}.synchronize();
        return story(node) + " " + std::to_string(node.now().count());
    };
    CHECK(run() == run());
}

TEST_CASE("sim_schedule: the next wait throws an exception of a kernel, once") {
    sim_node   node{exact()};
    sim_stream s;
    sim_launch(s, {}, [] { throw 42; });
    CHECK_THROWS_AS(s.synchronize(), int);
    s.synchronize();
}

TEST_CASE("sim_schedule: a kernel must not call the simulated device") {
    sim_node   node{exact()};
    sim_stream s;
    sim_launch(s, {}, [&] { s.synchronize(); });
    try {
        s.synchronize();
        CHECK(false);
    } catch (sim_error const& e) { CHECK(e.status() == sim_status::not_permitted); }
}

TEST_CASE("sim_schedule: an exception of a kernel is thrown by a wait for its own device") {
    sim_options o = exact();
    o.devices     = 2;
    sim_node   node{o};
    sim_stream s{sim_device{1}}, other{sim_device{0}};
    sim_launch(s, {}, [] { throw 42; });
    sim_launch(other, {.duration = 9us});
    other.synchronize(); // the kernel has thrown by this time
    sim_device{0}.synchronize();
    CHECK_THROWS_AS(s.synchronize(), int);
    s.synchronize();
}
