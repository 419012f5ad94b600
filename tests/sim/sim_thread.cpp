// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_thread.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace vram;
using doubles::collecting;
using namespace std::chrono_literals;

TEST_CASE("sim_thread: the callable runs with the given device current, and the destructor joins") {
    sim_options o = collecting();
    o.devices     = 2;
    sim_node         node{o};
    std::atomic<int> device{-1};
    {
        sim_thread const t{sim_device{1}, [&] { device = sim_device::current().index(); }};
    }
    CHECK(device == 1);
    CHECK(sim_device::current().index() == 0);
}

TEST_CASE("sim_thread: the work of two threads overlaps in simulated time" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node   node{collecting()};
    sim_thread a{sim_device{}, [] { sim_work(30us); }};
    sim_thread b{sim_device{}, [] { sim_work(50us); }};
    sim_work(20us);
    CHECK(node.now() == 20us);
    a.join();
    CHECK(node.now() == 30us);
    b.join();
    CHECK(node.now() == 50us);
    sim_work(1us);
    CHECK(node.now() == 51us);
}

TEST_CASE(
    "sim_thread: the thread with the earliest clock runs first, and the lower number on a tie" *
    doctest::skip(!sim_ordered_threads) *
    doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node         node{collecting()};
    std::vector<int> order;
    auto const       body = [&](int number, sim_time first) {
        sim_work(first);
        sim_work(sim_time{0});
        order.push_back(number);
        sim_work(10us);
        sim_work(sim_time{0});
        order.push_back(number);
    };
    sim_thread a{sim_device{}, [&] { body(1, 5us); }};
    sim_thread b{sim_device{}, [&] { body(2, 3us); }};
    sim_thread c{sim_device{}, [&] { body(3, 5us); }};
    sim_thread::join_together(a, b, c);
    CHECK(order == std::vector{2, 1, 3, 2, 1, 3});
    CHECK(node.now() == 15us);
}

TEST_CASE(
    "sim_thread: a wait for a stream takes simulated time while another thread still queues work" *
    doctest::skip(!sim_ordered_threads) *
    doctest::description("threads run freely under ThreadSanitizer")) {
    // The waiter needs the engine from 0 to 10; the other asks for it at 4 with something that is
    // ready at once.
    sim_options o = collecting();
    o.trace       = true;
    sim_node   node{o};
    sim_stream s, t;
    sim_time   woke{};
    sim_launch(s, {.name = "one", .duration = 10us});
    sim_launch(s, {.name = "two", .duration = 10us}); // ready at 10
    sim_thread waiter{sim_device{}, [&] {
                          s.synchronize();
                          woke = node.now();
                      }};
    sim_thread asker{sim_device{}, [&] {
                         sim_work(4us);
                         sim_launch(
                             t, {.name = "between", .duration = 3us}); // ready at 4: before "two"
                     }};
    sim_thread::join_together(waiter, asker);
    CHECK(woke == 23us);
}

TEST_CASE("sim_thread: its work happens before work after the join") {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    {
        sim_thread const t{sim_device{}, [&] { sim_touch({p, 64}, sim_access::write); }};
    }
    sim_touch({p, 64}, sim_access::read);
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 64);
}

TEST_CASE("sim_thread: two threads that use one buffer without a gate race" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    sim_thread          a{sim_device{}, [&] { sim_touch({p, 64}, sim_access::write); }};
    sim_thread          b{sim_device{}, [&] { sim_touch({p, 64}, sim_access::read); }};
    sim_thread::join_together(a, b);
    auto const all = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::race);
    CHECK(all[0].missing.find("must wait for host thread") != std::string::npos);
    pinned.deallocate_sync(p, 64);
}

TEST_CASE(
    "sim_thread: a wait for an event that another thread happens to record before is reported" *
    doctest::skip(!sim_ordered_threads) *
    doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node   node{collecting()};
    sim_stream s, t;
    sim_event  e;
    auto const wait_on = [&](auto wait) {
        sim_thread a{sim_device{}, [&] { e.record(s); }};
        sim_thread b{sim_device{}, [&] {
                         sim_work(sim_time{1000});
                         wait();
                         wait(); // one report for each record
                     }};
        sim_thread::join_together(a, b);
        auto const all = node.take_reports();
        REQUIRE(all.size() == 1);
        CHECK(all[0].kind == sim_mistake::unordered_wait);
        CHECK(all[0].first.what == sim_event_of::kind::record);
        CHECK(all[0].second.what == sim_event_of::kind::wait);
        CHECK(all[0].text().find("records the event") != std::string::npos);
        CHECK(all[0].missing.find("after the record") != std::string::npos);
    };
    wait_on([&] { e.wait(t); });
    wait_on([&] { e.synchronize(); });
    wait_on([&] { (void)e.done(); });
}

TEST_CASE(
    "sim_thread: a wait for an event after a gate, a join or on the thread itself is silent") {
    sim_node           node{collecting()};
    sim_stream         s, t;
    sim_event          e, f;
    sim_platform::gate gate;
    bool               recorded = false;
    {
        sim_thread a{sim_device{}, [&] {
                         e.record(s);
                         auto const held = gate.hold();
                         recorded        = true;
                         gate.notify();
                     }};
        sim_thread b{sim_device{}, [&] {
                         {
                             auto held = gate.hold();
                             gate.wait(held, [&] { return recorded; });
                         }
                         e.wait(t);
                         f.record(t);
                         f.synchronize();
                     }};
        sim_thread::join_together(a, b);
    }
    f.synchronize();
    e.wait(t);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_thread: an exception of the callable is a report") {
    sim_node node{collecting()};
    {
        sim_thread const t{sim_device{}, [] { throw std::runtime_error{"lost its way"}; }};
    }
    auto const all = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::thread_failed);
    CHECK(all[0].missing == "lost its way");
}

TEST_CASE("sim_thread: a sim_thread can start another one") {
    sim_node         node{collecting()};
    std::atomic<int> ran{0};
    {
        sim_thread const t{sim_device{}, [&] {
                               sim_thread const inner{sim_device{}, [&] {
                                                          sim_work(5us);
                                                          ++ran;
                                                      }};
                               sim_work(1us);
                               ++ran;
                           }};
    }
    CHECK(ran == 2);
    if (sim_ordered_threads) { CHECK(node.now() == 5us); }
}

TEST_CASE("sim_thread: a moved-from thread joins nothing, and a second join does nothing") {
    sim_node   node{collecting()};
    sim_thread a{sim_device{}, [] { sim_work(5us); }};
    sim_thread b{std::move(a)};
    a.join();
    b.join();
    b.join();
    b = sim_thread{sim_device{}, [] {}};
    sim_thread none;
    none.join();
}

TEST_CASE("sim_thread: many threads in sequence leave none running") {
    sim_node node{collecting()};
    for (int i = 0; i < 50; ++i) {
        sim_thread a{sim_device{}, [] { sim_work(1us); }};
        sim_thread b{sim_device{}, [] { sim_work(2us); }};
    }
    CHECK(node.machine().turns.participants() == 0);
    if (sim_ordered_threads) { CHECK(node.now() == 100us); }
}

TEST_CASE("sim_thread: with `freely`, threads are ordinary ones") {
    sim_options o = collecting();
    o.threads     = sim_order::freely;
    sim_node         node{o};
    std::atomic<int> ran{0};
    {
        sim_thread a{sim_device{}, [&] {
                         while (ran == 0) {} // would never end if threads took turns
                         ++ran;
                     }};
        sim_thread b{sim_device{}, [&] { ++ran; }};
    }
    CHECK(ran == 2);
}

TEST_CASE("sim_thread: an ordinary thread is ordered after a thread that it joins") {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    {
        sim_thread t{sim_device{}, [&] { sim_touch({p, 64}, sim_access::write); }};
        sim_work(1us);
        sim_work(1us); // the thread had its turn before this call, and ended
        std::thread ordinary{[&] {
            t.join();
            sim_touch({p, 64}, sim_access::read);
            pinned.deallocate_sync(p, 64);
        }};
        ordinary.join();
    }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "sim_thread: if another thread joins its threads, a thread becomes ordinary at its next join") {
    sim_node node{collecting()};
    {
        sim_thread t{sim_device{}, [] {}};
        sim_thread u{sim_device{}, [joined = std::move(t)]() mutable { joined.join(); }};
        u.join();
    }
    CHECK(node.machine().turns.participants() == 0);
    sim_launch(sim_stream{}, {.duration = 1ms});
}

TEST_CASE("sim_thread: a thread participates until all threads that it started are joined, by any "
          "thread") {
    sim_node   node{collecting()};
    sim_thread inner;
    sim_thread maker{sim_device{}, [&] { inner = sim_thread{sim_device{}, [] {}}; }};
    maker.join();
    inner.join(); // which was not started by this thread
    CHECK(node.machine().turns.participants() == 0);
    sim_thread a{sim_device{}, [] { sim_work(1us); }};
    sim_thread b{sim_device{}, [] { sim_work(2us); }};
    a.join();
    if (sim_ordered_threads) { CHECK(node.machine().turns.participants() >= 1); }
    b.join();
    CHECK(node.machine().turns.participants() == 0);
}

TEST_CASE("sim_thread: a thread begins with the tag of its creator") {
    sim_node     node{collecting()};
    tagged const scope{"creator of a sim_thread"};
    memory_tag   inherited;
    sim_thread{sim_device{}, [&] { inherited = current_tag(); }}.join();
    CHECK(inherited == current_tag());
}

TEST_CASE("sim_thread: an ordinary thread is not blocked by a join of std::thread for it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node node{collecting()};
    node.machine().stuck_patience = 20ms;
    sim_gate   gate;
    bool       end  = false;
    bool       woke = false;
    sim_thread helper{sim_device{}, [&] {
                          auto held = gate.hold();
                          gate.wait(held, [&] { return end; });
                          woke = true;
                          held.unlock();
                          gate.notify();
                      }};
    // From here on this thread is in simulated time, but the next lines wait in real time.
    for (int i = 0; i < 2; ++i) {
        std::thread{[] {
            sim_stream const s;
            sim_launch(s, {.duration = 1ms});
            s.synchronize();
        }}.join();
    }
    std::thread{[&] { // an ordinary thread wakes the helper and waits for it
        {
            auto const held = gate.hold();
            end             = true;
        }
        gate.notify();
        auto held = gate.hold();
        gate.wait(held, [&] { return woke; });
    }}
        .join();
    CHECK(woke);
    helper.join();
    CHECK(node.reports().empty());
}
