// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_lock.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

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

TEST_CASE("sim_lock: what was done under it happened before what the next holder does") {
    CHECK(races(true) == 0);
    if (sim_ordered_threads) { CHECK(races(false) == 1); } // else the two may meet by luck
}

TEST_CASE("sim_lock: a lock that moves is fresh in its new place") {
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

TEST_CASE("sim_lock: code inside an operation takes over nothing for the thread that runs it") {
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
