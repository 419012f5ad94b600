// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_explore.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <string>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {

/// Two threads that each take `steps` steps; the order of each run is added to `seen`.
sim_explored two_threads(int steps, unsigned preemptions, std::set<std::string>& seen) {
    return sim_explore({.node = {.preemptions = preemptions}}, [&](sim_node&) {
        std::string order;
        auto const  body = [&](char name) {
            for (int i = 0; i < steps; ++i) {
                sim_work(sim_time{0});
                order += name;
            }
        };
        sim_thread a{sim_device{}, [&] { body('a'); }}, b{sim_device{}, [&] { body('b'); }};
        sim_thread::join_together(a, b);
        seen.insert(order);
    });
}

/// Two threads that each increment a number in two steps: the result is wrong in some orders.
void lost_update(sim_node&) {
    int        number = 0;
    auto const body   = [&] {
        sim_work(sim_time{0});
        int const read = number;
        sim_work(sim_time{0});
        number = read + 1;
    };
    sim_thread a{sim_device{}, body}, b{sim_device{}, body};
    sim_thread::join_together(a, b);
    if (number != 2) { throw std::runtime_error{"lost an update"}; }
}

} // namespace

TEST_CASE("sim_explore: runs every interleaving of two threads once" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    // Two threads of n steps: (2n)! / (n! n!) orders.
    for (auto const& [steps, orders] : {std::pair{1, 2U}, {2, 6U}, {3, 20U}, {4, 70U}}) {
        std::set<std::string> seen;
        auto const            found = two_threads(steps, 100, seen);
        CHECK(found.complete);
        CHECK(found.runs == orders);
        CHECK(seen.size() == orders);
        CHECK(found.failures == 0);
    }
}

TEST_CASE("sim_explore: the bound on preemptions removes the orders with more of them" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    // Three steps each: without a preemption 2 orders, with one preemption 6.
    std::set<std::string> none, one;
    CHECK(two_threads(3, 0, none).runs == 2);
    CHECK(none == std::set<std::string>{"aaabbb", "bbbaaa"});
    CHECK(two_threads(3, 1, one).runs == 6);
    CHECK(one == std::set<std::string>{"aaabbb", "bbbaaa", "abbbaa", "aabbba", "baaabb", "bbaaab"});
}

TEST_CASE("sim_explore: three threads of one step each have six orders" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    std::set<std::string> seen;
    auto const            found = sim_explore({}, [&](sim_node&) {
        std::string order;
        auto const  body = [&](char name) {
            return [&order, name] {
                sim_work(sim_time{0});
                order += name;
            };
        };
        sim_thread a{sim_device{}, body('a')}, b{sim_device{}, body('b')},
            c{sim_device{}, body('c')};
        sim_thread::join_together(a, b, c);
        seen.insert(order);
    });
    CHECK(found.runs == 6);
    CHECK(seen.size() == 6);
}

TEST_CASE("sim_explore: a lost update is found, with the choices that repeat it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    auto const found = sim_explore({.print = false}, lost_update);
    CHECK(found.complete);
    CHECK(found.runs == 6);
    CHECK(found.failures == 4); // all but aabb and bbaa
    CHECK(found.first == "exception: lost an update");
    REQUIRE(found.replay.starts_with("choices "));
    auto const again = sim_explore({.replay = found.replay, .print = false}, lost_update);
    CHECK(again.runs == 1);
    CHECK(again.failures == 1);
    CHECK(again.replay == found.replay);
}

TEST_CASE("sim_explore: random orders find a lost update, and the seed repeats it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    auto const found =
        sim_explore({.order = sim_order::by_seed, .seeds = 50, .print = false}, lost_update);
    CHECK(found.runs == 50);
    CHECK(found.failures > 0);
    CHECK(found.failures < 50);
    auto const again = sim_explore({.replay = found.replay, .print = false}, lost_update);
    CHECK(again.failures == 1);
}

TEST_CASE("sim_explore: a run in an order that cannot be selected has no text that repeats it") {
    for (sim_order const order : {sim_order::by_time, sim_order::freely}) {
        auto const found = sim_explore({.order = order, .seeds = 3, .print = false}, [](sim_node&) {
            sim_thread const t{sim_device{}, [] { sim_work(1us); }};
            throw std::runtime_error{"wrong in every order"};
        });
        CHECK(found.runs == 3);
        CHECK(found.failures == 3);
        CHECK_FALSE(found.complete);
        CHECK(found.replay.empty());
    }
}

TEST_CASE("sim_explore: the deadlock of a notification that comes too early is found" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    // The waiter reads the flag, releases the gate, and waits for a notification that may have come
    // in between.
    auto const found = sim_explore({.print = false}, [](sim_node&) {
        sim_gate   g;
        bool       ready = false;
        sim_thread waiter{
            sim_device{}, [&] {
                bool seen = false;
                {
                    auto held = g.hold();
                    seen      = ready;
                }
                if (seen) { return; }
                auto held  = g.hold();
                bool first = true;
                g.wait(held, [&] { return !std::exchange(first, false); }); // does not look again
            }};
        sim_thread notifier{sim_device{}, [&] {
                                {
                                    auto held = g.hold();
                                    ready     = true;
                                }
                                g.notify();
                            }};
        sim_thread::join_together(waiter, notifier);
    });
    CHECK(found.complete);
    CHECK(found.failures > 0);
    CHECK(found.failures < found.runs);
    CHECK(found.first.find("deadlock") != std::string::npos);
}

TEST_CASE("sim_explore: a race is found in every order of the threads" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    auto const found = sim_explore({.print = false}, [](sim_node&) {
        sim_resource memory;
        sim_stream   s, t;
        void* const  p = memory.allocate_sync(64);
        {
            sim_thread a{sim_device{}, [&] { sim_launch(s, {.writes = {{p, 64}}}); }};
            sim_thread b{sim_device{}, [&] { sim_launch(t, {.writes = {{p, 64}}}); }};
            sim_thread::join_together(a, b);
        }
        sim_device{}.synchronize();
        memory.deallocate_sync(p, 64);
    });
    CHECK(found.complete);
    CHECK(found.runs == 2);
    CHECK(found.failures == 2);
}

TEST_CASE("sim_explore: it stops at max_runs" * doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    auto const found = sim_explore({.max_runs = 3, .print = false}, lost_update);
    CHECK(found.runs == 3);
    CHECK_FALSE(found.complete);
}

TEST_CASE("sim_explore: a replay text of another form is refused with the valid forms") {
    for (std::string const text :
         {"garbage", "choices", "seed", "seed ", "0,0,0", "choices 0,x", "choices 0,", "choices ,0",
          "choices 0 1", "choices -1", "choices 99999999999", "seed x", "seed 7 ", "seed -1",
          "choices 0,1\n"}) {
        CAPTURE(text);
        unsigned  runs = 0;
        int const line = __LINE__ + 2;
        try {
            (void)sim_explore({.replay = text, .print = false}, [&](sim_node&) { ++runs; });
            FAIL_CHECK("no exception");
        } catch (sim_error const& e) {
            std::string const what = e.what();
            CHECK(e.status() == sim_status::invalid_value);
            CHECK(static_cast<int>(e.where().line()) == line);
            CHECK(what.find('"' + text + '"') != std::string::npos);
            CHECK(what.find("\"choices 0,1,1\" or \"seed 7\"") != std::string::npos);
        }
        CHECK(runs == 0);
    }
}

TEST_CASE("sim_explore: a replay with choices that the program does not have is refused" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (std::string const text :
         {"choices 9,9,9", "choices 0,2", "choices 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"}) {
        CAPTURE(text);
        try {
            (void)sim_explore({.replay = text, .print = false}, lost_update);
            FAIL_CHECK("no exception");
        } catch (sim_error const& e) {
            CHECK(e.status() == sim_status::invalid_value);
            CHECK(std::string{e.what()}.find('"' + text + '"') != std::string::npos);
        }
    }
}

TEST_CASE("sim_explore: the replay text of a program without threads repeats it") {
    auto const program = [](sim_node&) { throw std::runtime_error{"wrong"}; };
    auto const found   = sim_explore({.print = false}, program);
    CHECK(found.replay == "choices ");
    auto const again = sim_explore({.replay = found.replay, .print = false}, program);
    CHECK(again.runs == 1);
    CHECK(again.failures == 1);
}
