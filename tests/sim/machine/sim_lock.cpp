// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_lock.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"
#include "../../doubles/collecting.hpp"
#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::collecting;
using namespace std::chrono_literals;

namespace {

/// Two threads write one word, `ordered` by a lock or not.
std::size_t races(bool ordered) {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_lock            lock;
    sim_pinned_resource pinned;
    void* const         word  = pinned.allocate_sync(8);
    auto                write = [&] {
        auto held = lock.hold();
        if (!ordered) { held.unlock(); }
        sim_touch({word, 8}, sim_access::write);
    };
    {
        sim_thread a{sim_device::current(), write};
        sim_thread b{sim_device::current(), write};
    }
    pinned.deallocate_sync(word, 8);
    return node.reports().size();
}

} // namespace

TEST_CASE("sim_lock: work before a release happens before work after the next acquisition") {
    CHECK(races(true) == 0);
    // Otherwise the lock may order the two by chance.
    if (sim_ordered_threads) { CHECK(races(false) == 1); }
}

TEST_CASE("sim_lock: a moved lock is unlocked") {
    sim_node node;
    sim_lock a;
    sim_lock b{std::move(a)};
    auto     held = b.hold();
    auto     also = std::move(held);
    CHECK(also.owns_lock());
    also.unlock();
    CHECK_FALSE(also.owns_lock());
    also.lock();
    CHECK(also.owns_lock());
}

TEST_CASE("sim_lock: an acquisition inside an operation does not order the thread that runs it") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_lock            lock;
    sim_pinned_resource pinned;
    sim_stream          s;
    void* const         word = pinned.allocate_sync(8);
    {
        sim_thread a{sim_device::current(), [&] {
                         sim_touch({word, 8}, sim_access::write);
                         auto held = lock.hold();
                     }};
        sim_thread b{sim_device::current(), [&] {
                         sim_work(sim_time{10});
                         sim_launch(s, {}, [&] { auto held = lock.hold(); });
                         sim_work(sim_time{5000});
                         sim_touch({word, 8}, sim_access::write); // did not take the lock itself
                     }};
    }
    if (sim_ordered_threads) { CHECK(node.reports().size() == 1); }
    pinned.deallocate_sync(word, 8);
}

TEST_CASE("sim_lock: a release in a host function orders the work before it, and no later work" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (bool const before : {true, false}) {
        CAPTURE(before);
        sim_node            node{collecting()};
        sim_lock            lock;
        sim_pinned_resource pinned;
        sim_stream          s;
        void* const         word  = pinned.allocate_sync(8);
        auto const          write = [&] { sim_touch({word, 8}, sim_access::write); };
        {
            sim_thread other{sim_device{}, [&] {
                                 sim_stream mine;
                                 sim_launch(mine, {.duration = 5000us});
                                 mine.synchronize(); // the host function has ended then
                                 auto held = lock.hold();
                                 write();
                             }};
            sim_work(10us); // this thread runs the host function, when it synchronizes
            if (before) { write(); }
            sim_call_host(s, {.duration = 100us}, [&] { auto held = lock.hold(); });
            if (!before) { write(); }
            s.synchronize();
        }
        CHECK(node.reports().size() == (before ? 0 : 1));
        pinned.deallocate_sync(word, 8);
    }
}

TEST_CASE("sim_lock: the holder may wait for a stream while other threads wait for the lock") {
    sim_node   node{collecting()};
    sim_lock   lock;
    sim_stream s;
    sim_time   there[2]{};
    auto const body = [&](int i) {
        sim_work(i * 10us);
        auto held = lock.hold();
        sim_launch(s, {.duration = 100us}, [] {});
        s.synchronize();
        there[i] = node.now();
    };
    {
        sim_thread a{sim_device{}, [&] { body(0); }};
        sim_thread b{sim_device{}, [&] { body(1); }};
    }
    CHECK(node.now() >= 200us);
    if (sim_ordered_threads) {
        CHECK(there[0] == 100us);
        CHECK(there[1] == 200us); // requested at 10, held from 100 on
    }
    CHECK(node.reports().empty());
}

TEST_CASE("sim_lock: ordinary threads wait in real time, and one at a time holds it") {
    sim_node                 node{collecting()};
    sim_lock                 lock;
    sim_stream               s;
    int                      inside = 0, most = 0, times = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                auto held = lock.hold();
                most      = std::max(most, ++inside);
                sim_launch(s, {.duration = 1us}, [] {});
                if (i % 10 == 0) { s.synchronize(); }
                --inside;
                ++times;
            }
        });
    }
    for (auto& each : threads) { each.join(); }
    CHECK(most == 1);
    CHECK(times == 200);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_lock: an ordinary thread and a sim_thread can wait for each other's release") {
    sim_node          node{collecting()};
    sim_lock          lock;
    sim_stream        s;
    std::atomic<bool> has{false}, asks{false};
    std::thread       ordinary{[&] {
        auto held = lock.hold();
        has       = true;
        while (!asks) { std::this_thread::yield(); }
        sim_launch(s, {.duration = 100us}, [] {});
        s.synchronize();
    }};
    while (!has) { std::this_thread::yield(); }
    bool had = false;
    {
        sim_thread a{sim_device{}, [&] {
                         asks      = true;
                         auto held = lock.hold();
                         had       = true;
                         std::thread other{[&] { lock.hold().unlock(); }};
                         sim_launch(s, {.duration = 100us}, [] {});
                         s.synchronize();
                         held.unlock();
                         other.join();
                     }};
    }
    ordinary.join();
    CHECK(had);
    CHECK(node.now() == 200us);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_lock: a deadlock of two threads with two locks is reported" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node   node{collecting()};
    sim_lock   first, second;
    sim_stream s[2];
    int        told = 0, done = 0;
    auto const body = [&](sim_lock& one, sim_lock& other, sim_stream& mine) {
        auto held = one.hold();
        sim_launch(mine, {.duration = 100us}, [] {});
        mine.synchronize();
        try {
            auto also = other.hold();
            ++done;
        } catch (sim_error const& e) {
            CHECK(e.status() == sim_status::deadlock);
            ++told;
        }
    };
    {
        sim_thread a{sim_device{}, [&] { body(first, second, s[0]); }};
        sim_thread b{sim_device{}, [&] { body(second, first, s[1]); }};
    }
    CHECK(told == 1); // the unwinding thread releases its lock to the other
    CHECK(done == 1);
    auto const all = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::deadlock);
    CHECK(all[0].text().find("waits for a lock") != std::string::npos);
}

TEST_CASE("sim_lock: in a deadlock of a lock and a gate, the wait at the gate throws" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (bool const holder_first : {true, false}) {
        sim_node   node{collecting()};
        sim_lock   lock;
        sim_gate   gate;
        sim_stream s;
        bool       told = false, had = false;
        auto const holds = [&] {
            auto held = lock.hold();
            auto open = gate.hold();
            try {
                gate.wait(open, [] { return false; });
            } catch (sim_error const&) { told = true; }
        };
        auto const wants = [&] {
            sim_work(10us);
            auto held = lock.hold();
            had       = true;
        };
        if (holder_first) {
            sim_thread a{sim_device{}, holds}, b{sim_device{}, wants};
        } else {
            sim_thread a{sim_device{}, wants}, b{sim_device{}, holds};
        }
        CHECK(told);
        CHECK(had);
        CHECK(node.reports().size() == 1);
    }
}

TEST_CASE("sim_lock: in every order of two threads that wait with it held, both acquire it" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    auto const found = sim_explore({.node = {.preemptions = 2}}, [](sim_node&) {
        sim_lock   lock;
        sim_stream s;
        int        times = 0;
        auto const body  = [&] {
            for (int i = 0; i < 2; ++i) {
                auto held = lock.hold();
                sim_launch(s, {.duration = 10us}, [] {});
                s.synchronize();
                ++times;
            }
        };
        sim_thread a{sim_device{}, body}, b{sim_device{}, body};
        sim_thread::join_together(a, b);
        CHECK(times == 4);
    });
    CHECK(found.complete);
    CHECK(found.failures == 0);
    CHECK(found.runs > 1);
}

TEST_CASE("sim_lock: a thread that acquires it without host memory gets an exception") {
    sim_options options  = collecting();
    options.host_threads = sim_host_order::checked; // each thread has its own state
    sim_node      node{options};
    sim_lock      lock;
    std::uint64_t refused = 0;
    for (bool failed = true; failed; refused += failed) {
        std::thread{[&] {
            doubles::bombing const armed{refused + 1};
            try {
                lock.hold().unlock();
                failed = false;
            } catch (std::bad_alloc const&) {}
        }}.join();
    }
    CHECK(refused > 0);
    lock.hold().unlock();
    CHECK(node.reports().empty());
}

TEST_CASE("sim_lock: a release that cannot store its order ends the reports of races") {
    doubles::mishaps const sink;
    sim_node               node{collecting()};
    sim_lock               lock;
    auto const             work = [&] {
        std::vector<sim_stream> const streams(40);
        for (sim_stream const& s : streams) {
            sim_launch(s, {.name = "work"});
            s.synchronize();
            sim_platform::begin_resource_call(); // the lock orders the two threads only in part
            auto                   held = lock.hold();
            doubles::bombing const armed{1};
            held.unlock();
            sim_platform::end_resource_call();
        }
    };
    { sim_thread one{sim_device::current(), work}, two{sim_device::current(), work}; }
    if (sim_ordered_threads) { CHECK(sink.count() > 0); }
    CHECK(node.unchecked().orders == sink.count());
}
