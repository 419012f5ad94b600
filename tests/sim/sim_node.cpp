// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_node.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE(
    "sim_node: a default node exists from the start, and the newest node is the current one") {
    sim_node& first = sim_node::current();
    {
        sim_node const a;
        CHECK(&sim_node::current() == &a);
        {
            sim_node const b;
            CHECK(&sim_node::current() == &b);
        }
        CHECK(&sim_node::current() == &a);
    }
    CHECK(&sim_node::current() == &first);
}

TEST_CASE("sim_node: nodes may be destroyed in any order") {
    sim_node& first = sim_node::current();
    auto      a     = std::make_unique<sim_node>();
    auto      b     = std::make_unique<sim_node>();
    a.reset();
    CHECK(&sim_node::current() == b.get());
    b.reset();
    CHECK(&sim_node::current() == &first);
}

TEST_CASE("sim_node: simulated time advances by work, by waits, and by the cost of calls") {
    sim_node   node{{.call_cost = 100ns}};
    sim_stream s; // a call
    CHECK(node.now() == 100ns);
    node.work(1us); // a call and its work
    CHECK(node.now() == 1200ns);
    sim_launch(s, {.duration = 5us});
    CHECK(node.now() == 1300ns);
    s.synchronize();
    CHECK(node.now() == 6300ns);
}

TEST_CASE("sim_node: the destructor runs queued work") {
    bool ran = false;
    {
        sim_node const node;
        sim_launch(sim_stream{}, {.duration = 1s}, [&] { ran = true; });
    }
    CHECK(ran);
}

TEST_CASE("sim_node: reports can be read or taken, and checks can be changed") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s;
    char       local[4];
    sim_launch(s, {.reads = {{local, 4}}});
    CHECK(node.reports().size() == 1);
    CHECK(node.take_reports().size() == 1);
    CHECK(node.reports().empty());
    node.set_checks({.residency = false});
    sim_launch(s, {.reads = {{local, 4}}});
    CHECK(node.reports().empty());
}

TEST_CASE("sim_node: figures are per device, and can be reset") {
    sim_node     node{{.devices = 2}};
    sim_resource memory{sim_device{1}};
    sim_stream   s{sim_device{1}};
    void* const  p = memory.allocate_sync(1000);
    sim_launch(s, {.duration = 5us});
    s.synchronize();
    CHECK(node.figures(1).allocations == 1);
    CHECK(node.figures(1).operations[0] == 1);
    CHECK(node.figures(0).allocations == 0);
    node.reset_figures(1);
    CHECK(node.figures(1).busy(sim_engine::compute) == 0us);
    CHECK(node.figures(1).peak_used == 1024);
    memory.deallocate_sync(p, 1000);
    CHECK(node.figures(1).frees == 1);
}

TEST_CASE("sim_node: the trace has every completed operation if it is on") {
    sim_node   node{{.trace = true}};
    sim_stream s;
    sim_launch(s, {.name = "k", .duration = 5us});
    CHECK(node.trace().empty());
    s.synchronize();
    REQUIRE(node.trace().size() == 1);
    CHECK(node.trace()[0].stream == s.id());
    CHECK(node.trace()[0].end == 5us);
}

TEST_CASE("sim_node: the end makes a caller in simulated time an ordinary thread") {
    bool ran = false;
    {
        sim_node node;
        {
            sim_thread t{sim_device{}, [] {}};
            sim_work(sim_time{1});
            sim_work(sim_time{0});                   // the thread has run and ended
            std::thread ordinary{[&] { t.join(); }}; // so this thread never joins its own
            ordinary.join();
        }
        sim_launch(sim_stream{}, {.duration = 1ms}, [&] { ran = true; });
        node.finish();
        CHECK(node.machine().turns.participants() == 0);
        if (sim_ordered_threads) { CHECK(node.now() == 1ms + 1ns); }
    }
    CHECK(ran);
}

TEST_CASE("sim_node: a sim_thread may finish it") {
    bool     ran = false;
    sim_node node;
    {
        sim_thread t{sim_device{}, [&] {
                         sim_launch(sim_stream{}, {.duration = 1ms}, [&] { ran = true; });
                         node.finish();
                     }};
    }
    CHECK(ran);
    CHECK(node.machine().turns.participants() == 0);
}

TEST_CASE(
    "sim_node: finish() in a sim_thread lets the others continue, without a wait in real time" *
    doctest::skip(!sim_ordered_threads) *
    doctest::description("threads run freely under ThreadSanitizer")) {
    using clock = std::chrono::steady_clock;
    for (auto const order : {sim_host_order::ordered, sim_host_order::checked}) {
        sim_node                node{{.host_threads = order}};
        sim_stream              s;
        std::atomic<int>        ended = 0;
        clock::time_point const start = clock::now();
        auto const              waits = [&] {
            sim_launch(s, {.duration = 100us});
            s.synchronize();
            ++ended;
        };
        auto const finishes = [&] {
            sim_work(10us);
            node.finish();
            ++ended;
        };
        {
            sim_thread a{sim_device{}, waits}, b{sim_device{}, finishes};
            b.join();
        }
        CHECK(ended == 2);
        CHECK(clock::now() - start < 5s);
    }
}

TEST_CASE("sim_node: if finish() cannot get host memory in a sim_thread, other threads continue" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    bool failed = true;
    for (std::uint64_t n = 1; failed; ++n) {
        REQUIRE(n < 100);
        sim_options options  = doubles::collecting();
        options.host_threads = sim_host_order::checked;
        sim_node   node{options};
        sim_stream s;
        failed           = false;
        bool       ended = false;
        auto const waits = [&] {
            sim_launch(s, {.duration = 100us});
            s.synchronize();
            ended = true;
        };
        auto const finishes = [&] {
            sim_work(10us);
            doubles::bombing const armed{n};
            try {
                node.finish();
            } catch (std::bad_alloc const&) { failed = true; }
        };
        { sim_thread a{sim_device{}, waits}, b{sim_device{}, finishes}; }
        CHECK(ended);
    }
}
