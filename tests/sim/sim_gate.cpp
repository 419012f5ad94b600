// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_gate.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <new>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::collecting;
using namespace std::chrono_literals;

TEST_CASE("sim_gate: a waiting thread continues at the later of the two clocks" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (sim_time const mine : {10us, 90us}) {
        sim_node   node{collecting()};
        sim_gate   g;
        bool       ready = false;
        sim_thread t{sim_device{}, [&] {
                         sim_work(50us);
                         {
                             auto held = g.hold();
                             ready     = true;
                         }
                         g.notify();
                     }};
        sim_work(mine);
        {
            auto held = g.hold();
            g.wait(held, [&] { return ready; });
        }
        CHECK(node.now() == std::max<sim_time>(mine, 50us));
    }
}

TEST_CASE("sim_gate: work before a release happens before work after the next acquisition") {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    sim_gate            g;
    bool                ready = false;
    void* const         p     = pinned.allocate_sync(64);
    {
        sim_thread t{sim_device{}, [&] {
                         sim_touch({p, 64}, sim_access::write);
                         {
                             auto held = g.hold();
                             ready     = true;
                         }
                         g.notify();
                     }};
        {
            auto held = g.hold();
            g.wait(held, [&] { return ready; });
        }
        sim_touch({p, 64}, sim_access::read);
    }
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 64);
}

TEST_CASE("sim_gate: one thread at a time holds it, and waiting for it takes simulated time" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node   node{collecting()};
    sim_gate   g;
    int        inside = 0;
    sim_time   end[3];
    auto const body = [&](int i) {
        auto held = g.hold();
        CHECK(++inside == 1);
        sim_work(10us);
        sim_work(sim_time{0});
        --inside;
        end[i] = node.now();
    };
    sim_thread a{sim_device{}, [&] { body(0); }}, b{sim_device{}, [&] { body(1); }},
        c{sim_device{}, [&] { body(2); }};
    sim_thread::join_together(a, b, c);
    CHECK(end[0] == 10us);
    CHECK(end[1] == 20us);
    CHECK(end[2] == 30us);
}

TEST_CASE("sim_gate: a producer and a consumer with two slots have the timeline of a pipeline" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    // Filling takes 10 us, using 15 us, four items, two slots: 10 + 4 * 15.
    sim_node        node{collecting()};
    sim_gate        g;
    std::deque<int> queue;
    sim_thread      producer{sim_device{}, [&] {
                            for (int i = 0; i < 4; ++i) {
                                sim_work(10us);
                                auto held = g.hold();
                                g.wait(held, [&] { return queue.size() < 2; });
                                queue.push_back(i);
                                held.unlock();
                                g.notify();
                            }
                        }};
    for (int i = 0; i < 4; ++i) {
        {
            auto held = g.hold();
            g.wait(held, [&] { return !queue.empty(); });
            CHECK(queue.front() == i);
            queue.pop_front();
        }
        g.notify();
        sim_work(15us);
    }
    producer.join();
    CHECK(node.now() == 70us);
}

TEST_CASE("sim_gate: a host function of a stream may notify") {
    sim_node   node{collecting()};
    sim_stream s;
    struct shared {
        sim_gate gate;
        bool     ready = false;
    } both;
    sim_launch(s, {.duration = 40us});
    sim_call_host(
        s,
        [](void* p) {
            auto& b = *static_cast<shared*>(p);
            {
                auto held = b.gate.hold();
                b.ready   = true;
            }
            b.gate.notify();
        },
        &both);
    auto held = both.gate.hold();
    both.gate.wait(held, [&] { return both.ready; }); // simulated time advances during the wait
    held.unlock();
    CHECK(node.now() == 40us);
}

TEST_CASE("sim_gate: ordinary threads can hand over through it") {
    sim_node         node{collecting()};
    sim_gate         g;
    std::vector<int> got;
    std::deque<int>  queue;
    std::thread      producer{[&] {
        for (int i = 0; i < 100; ++i) {
            {
                auto held = g.hold();
                queue.push_back(i);
            }
            g.notify();
        }
    }};
    while (got.size() < 100) {
        auto held = g.hold();
        g.wait(held, [&] { return !queue.empty(); });
        got.push_back(queue.front());
        queue.pop_front();
    }
    producer.join();
    for (int i = 0; i < 100; ++i) { REQUIRE(got[static_cast<std::size_t>(i)] == i); }
}

TEST_CASE("sim_gate: a thread in simulated time waits for an ordinary one that has used the gate") {
    sim_node    node{collecting()};
    sim_gate    g;
    bool        ready = false, waiting = false;
    std::thread ordinary{[&] {
        auto held = g.hold();
        g.wait(held, [&] { return waiting; });
        ready = true;
        held.unlock();
        g.notify();
    }};
    {
        sim_thread const t{sim_device{}, [&] {
                               auto held = g.hold();
                               waiting   = true;
                               held.unlock();
                               g.notify();
                               held = g.hold();
                               g.wait(held, [&] { return ready; });
                           }};
    }
    ordinary.join();
    CHECK(ready);
}

TEST_CASE("sim_gate: a deadlock is reported and thrown" * doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node node{collecting()};
    sim_gate g;
    int      deadlocks = 0;
    {
        sim_thread const t{sim_device{}, [&] {
                               auto held = g.hold();
                               try {
                                   g.wait(held, [] { return false; });
                               } catch (sim_error const& e) {
                                   CHECK(e.status() == sim_status::deadlock);
                                   ++deadlocks;
                                   throw;
                               }
                           }};
    }
    CHECK(deadlocks == 1);
    auto const all = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::deadlock);
    CHECK(all[0].missing == "host thread 1 waits for others to end, host thread 2 waits at a gate");
}

TEST_CASE("sim_gate: a wait that cannot lock the gate again leaves it to its holder" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node node{collecting()};
    sim_gate g;
    bool     owned = true, inside = false;
    {
        sim_thread waiter{sim_device{}, [&] {
                              auto held = g.hold();
                              try {
                                  g.wait(held, [] { return false; });
                              } catch (sim_error const&) { owned = held.owns_lock(); }
                          }};
        sim_work(10us);
        sim_work(10us);
        auto held = g.hold();
        waiter.join(); // a deadlock: the holder waits for a thread that needs the gate to end
        CHECK_FALSE(owned);
        sim_thread other{sim_device{}, [&] {
                             auto const mine = g.hold();
                             inside          = true;
                         }};
        sim_work(10us);
        sim_work(10us);
        CHECK_FALSE(inside);
        held.unlock();
    }
    CHECK(inside);
    CHECK(node.reports().size() == 2); // the wait, and then its lock of the gate
}

TEST_CASE("sim_gate: an ordinary thread is ordered after a sim_thread that released the gate") {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(64);
    {
        sim_gate          g;
        bool              ready = false;
        std::atomic<bool> waits{false};
        std::thread       ordinary{[&] {
            {
                auto held = g.hold();
                waits     = true;
                g.wait(held, [&] { return ready; });
            }
            sim_touch({p, 64}, sim_access::read);
        }};
        while (!waits) { std::this_thread::yield(); }
        sim_thread t{sim_device{}, [&] {
                         sim_touch({p, 64}, sim_access::write);
                         {
                             auto held = g.hold();
                             ready     = true;
                         }
                         g.notify();
                     }};
        t.join();
        ordinary.join();
    }
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 64);
}

TEST_CASE(
    "sim_gate: after one notification by an ordinary thread, a wait for another is no deadlock") {
    sim_node node{collecting()};
    sim_gate g;
    bool     ready = false;
    // Before any thread waits, and without holding the gate.
    g.notify();
    std::atomic<bool> started{false};
    std::thread       ordinary{[&] {
        while (!started) { std::this_thread::yield(); }
        std::this_thread::sleep_for(30ms); // the other thread waits by now
        {
            auto held = g.hold();
            ready     = true;
        }
        g.notify();
    }};
    sim_thread        t{sim_device{}, [&] {
                     auto held = g.hold();
                     started   = true;
                     g.wait(held, [&] { return ready; });
                 }};
    t.join();
    ordinary.join();
    CHECK(node.reports().empty());
}

TEST_CASE("sim_gate: a host function may hold it, and releases the earlier work of its stream") {
    for (bool gated : {true, false}) {
        sim_node            node{collecting()};
        sim_stream          stream;
        sim_resource        memory;
        sim_pinned_resource pinned;
        void* const         to   = memory.allocate_sync(64);
        void* const         from = pinned.allocate_sync(64);
        struct both {
            sim_gate gate;
            bool     landed = false;
        } shared;
        sim_thread writer{sim_device{}, [&] {
                              {
                                  auto held = shared.gate.hold();
                                  shared.gate.wait(held, [&] { return shared.landed; });
                              }
                              sim_touch({from, 64},
                                        sim_access::write); // the copy out of it is over
                          }};
        sim_copy(stream, to, from, 64);
        auto const land = [](void* p) {
            auto& s = *static_cast<both*>(p);
            {
                auto const held = s.gate.hold();
                s.landed        = true;
            }
            s.gate.notify();
        };
        if (gated) {
            sim_call_host(stream, land, &shared);
        } else {
            land(&shared); // by this thread, which is not ordered after the copy
        }
        writer.join();
        stream.synchronize();
        CHECK(node.reports().empty() == gated);
        memory.deallocate_sync(to, 64);
        pinned.deallocate_sync(from, 64);
    }
}

TEST_CASE("sim_gate: a host function is not ordered after those that held the gate before" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (bool const waited : {false, true}) {
        sim_node   node{collecting()};
        sim_stream stream;
        int        value = 0;
        sim_gate   gate;
        sim_thread writer{sim_device{}, [&] {
                              auto const held = gate.hold();
                              sim_touch({&value, sizeof value}, sim_access::write);
                          }};
        if (waited) { writer.join(); } // the order of the program, at the call
        sim_launch(stream, {.duration = 40us});
        sim_call_host(stream, sim_host_work{.reads = {{&value, sizeof value}}},
                      [&] { auto const held = gate.hold(); });
        if (!waited) { writer.join(); }
        stream.synchronize();
        CHECK(node.reports().empty() == waited);
    }
}

TEST_CASE("sim_gate: wait_for ends after a simulated time" * doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node node{collecting()};
    sim_gate g;
    bool     ready = false;
    CHECK_FALSE([&] {
        auto held = g.hold();
        return g.wait_for(held, sim_time{5000}, [&] { return ready; });
    }());
    CHECK(node.now() == sim_time{5000});
    sim_thread later{sim_device{}, [&] {
                         node.work(sim_time{3000});
                         {
                             auto held = g.hold();
                             ready     = true;
                         }
                         g.notify();
                     }};
    bool       in_time = false, at_once = false;
    sim_time   when{};
    sim_thread waiter{sim_device{}, [&] {
                          auto held = g.hold();
                          in_time   = g.wait_for(held, sim_time{10'000}, [&] { return ready; });
                          when      = node.now();
                          at_once   = g.wait_for(held, sim_time{10'000}, [&] { return ready; });
                      }};
    later.join();
    waiter.join();
    CHECK(in_time);
    CHECK(at_once);
    CHECK(when == sim_time{8000});
    CHECK(node.reports().empty());
}

TEST_CASE("sim_gate: wait_at_most ends after real time if a sim_thread blocks in real time" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node          node{collecting()};
    sim_gate          g;
    std::atomic<bool> go{false}, blocked{false};
    int               steps = 0;
    sim_thread        stuck{sim_device{}, [&] {
                         node.work(1us);
                         blocked = true;
                         // A wait that the machine does not observe.
                         while (!go) { std::this_thread::sleep_for(1ms); }
                         {
                             auto held = g.hold();
                             ++steps;
                         }
                         g.notify();
                         node.work(1us);
                     }};
    sim_thread        other{sim_device{}, [&] { // waits for its turn in between
                         auto held = g.hold();
                         g.wait(held, [&] { return steps == 1; });
                         ++steps;
                         g.notify();
                     }};
    for (int round = 0; round < 2; ++round) {
        auto const since = std::chrono::steady_clock::now();
        auto       held  = g.hold();
        CHECK_FALSE(g.wait_at_most(held, 1us, [&] { return steps != 0; }));
        CHECK(std::chrono::steady_clock::now() - since >= 100ms);
    }
    CHECK(blocked);
    go = true;
    {
        auto held = g.hold();
        CHECK(g.wait_at_most(held, sim_time{std::chrono::hours{1}}, [&] { return steps == 2; }));
    }
    stuck.join();
    other.join();
    CHECK(node.reports().empty());
    auto held = g.hold();
    CHECK_FALSE(g.wait_at_most(held, 5us, [] { return false; })); // in simulated time as before
}

namespace {
/// A node in which a thread that was notified holds the gate 5 us later.
sim_options slow_to_wake() {
    sim_options o       = collecting();
    o.costs.thread_wake = 5us;
    return o;
}
/// Notifies the gate `g` after each of the times `after`, and sets `ready` before the last one.
void notify_after(sim_gate& g, bool& ready, std::vector<sim_time> const& after) {
    for (std::size_t i = 0; i < after.size(); ++i) {
        sim_work(after[i]);
        {
            auto held = g.hold();
            ready     = i + 1 == after.size();
        }
        g.notify();
    }
}
} // namespace

TEST_CASE("sim_gate: threads that one notification wakes run one after the other" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node              node{slow_to_wake()};
    sim_gate              g;
    bool                  ready = false;
    std::vector<sim_time> ran;
    auto const            waiter = [&] {
        auto held = g.hold();
        g.wait(held, [&] { return ready; });
        ran.push_back(node.now());
    };
    sim_thread a{sim_device{}, waiter}, b{sim_device{}, waiter}, c{sim_device{}, waiter};
    notify_after(g, ready, {20us});
    CHECK(node.now() == sim_time{20us}); // the notifying thread does not wait
    sim_thread::join_together(a, b, c);
    CHECK(ran == std::vector<sim_time>{25us, 30us, 35us});
}

TEST_CASE("sim_gate: a thread that finds its condition true, or is awake, takes no time to wake" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node node{slow_to_wake()};
    sim_gate g;
    bool     ready = true;
    {
        auto held = g.hold();
        g.wait(held, [&] { return ready; });
    }
    CHECK(node.now() == sim_time{0us});
    ready = false;
    // Woken in vain at 20 us, the thread runs at 25 us; the notification of 22 us is not a second
    // waking.
    sim_thread t{sim_device{}, [&] { notify_after(g, ready, {20us, 2us}); }};
    {
        auto held = g.hold();
        g.wait(held, [&] { return ready; });
    }
    CHECK(node.now() == sim_time{25us});
    t.join();
}

TEST_CASE("sim_gate: a thread that polls before it sleeps takes no time to wake within that time" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (sim_time const polls : {0us, 19us, 20us, 50us}) {
        sim_node   node{slow_to_wake()};
        sim_gate   g;
        bool       ready = false;
        sim_thread t{sim_device{}, [&] { notify_after(g, ready, {20us}); }};
        {
            auto held = g.hold();
            g.wait(held, [&] { return ready; }, polls);
        }
        CHECK(node.now() == (polls < 20us ? sim_time{25us} : sim_time{20us}));
        t.join();
    }
}

TEST_CASE("sim_gate: a wait with a limit takes time to wake, a wait for a word takes none" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (bool const sleeps : {true, false}) {
        sim_node      node{slow_to_wake()};
        sim_gate      g;
        bool          ready = false;
        std::uint32_t word  = 0;
        auto const    wait  = [&] {
            auto held = g.hold();
            return sleeps ? g.wait_for(held, 30us, [&] { return ready; })
                              : g.wait_for_word(held, 30us, &word, [&] { return ready; });
        };
        sim_thread t{sim_device{}, [&] { notify_after(g, ready, {50us}); }};
        CHECK_FALSE(wait()); // the limit ends the wait, and wakes a thread that sleeps
        CHECK(node.now() == (sleeps ? sim_time{35us} : sim_time{30us}));
        CHECK(wait());
        CHECK(node.now() == (sleeps ? sim_time{55us} : sim_time{50us}));
        t.join();
    }
}

TEST_CASE("sim_gate: a word that is written during a call of `ready` ends the wait") {
    sim_node            node{collecting()};
    sim_pinned_resource pinned;
    auto* const         word = ::new (pinned.allocate_sync(64)) std::uint32_t{0};
    sim_gate            g;
    int                 calls = 0;
    {
        sim_stream s;
        auto       held = g.hold();
        CHECK(g.wait_for_word(held, 1s, word, [&] {
            if (++calls > 1) { return true; }
            std::thread{[&] {
                sim_write_value(s, word, 1);
                s.synchronize();
            }}.join();
            return false;
        }));
    }
    CHECK(calls == 2);
    CHECK(node.now() < 1s); // the limit of the wait
    pinned.deallocate_sync(word, 64);
}
