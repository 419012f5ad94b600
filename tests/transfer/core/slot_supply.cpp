// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_supply.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

using namespace vram;
using namespace vram::detail;

namespace supplying {
/// A supply whose copies the test makes.
struct slot_supply_by_hand final : slot_supply<host_platform> {
    using supply = slot_supply<host_platform>;

    slot_supply_by_hand() : slot_supply{{.pinned_depth = 2, .device_depth = 1}, {}} {}

    void copy_all() noexcept override { ++asked; }
    void check_copies() noexcept override { ++looked; }
    void stop() {
        {
            auto const held = gate_.hold();
            stopping_       = true;
        }
        gate_.notify();
    }

    using supply::await_pinned;
    using supply::claim;
    using supply::copied;
    using supply::ended;
    using supply::filled;
    using supply::copy_of;
    using supply::copy_completed;
    using supply::copy_completed_early;
    using supply::pinned;
    using supply::slot;

    std::atomic<int> asked = 0, looked = 0;
};
} // namespace supplying
using supplying::slot_supply_by_hand;

TEST_CASE("slot_supply: a filled slot requests its copy, and one thread at a time copies") {
    slot_supply_by_hand all;
    auto*               p = all.await_pinned();
    REQUIRE(p != nullptr);
    CHECK(all.states().filling == 1);
    all.filled(*p, 7);
    CHECK(all.asked == 1);
    slot_supply_by_hand::pinned* from = nullptr;
    slot_supply_by_hand::slot*   to   = nullptr;
    CHECK(all.claim(from, to));
    CHECK(from == p);
    CHECK_FALSE(all.claim(from, to));
    CHECK_FALSE(all.copied(from, to, nullptr)); // and there is no more
    CHECK(all.states() == slot_states{.empty = 1, .copying = 1, .ready = 1});
}

TEST_CASE("slot_supply: a copy that was polled as complete is not completed twice") {
    slot_supply_by_hand all;
    auto*               p = all.await_pinned();
    all.filled(*p, 0);
    slot_supply_by_hand::pinned* from = nullptr;
    slot_supply_by_hand::slot*   to   = nullptr;
    REQUIRE(all.claim(from, to));
    CHECK(all.copy_of(*p).which == 0); // it cannot be polled before it is enqueued
    CHECK_FALSE(all.copied(from, to, nullptr));
    CHECK(all.copy_of(*p).which == 1);
    all.copy_completed_early(*p, 2); // of another copy
    CHECK(all.states().copying == 1);
    all.copy_completed_early(*p, 1);
    CHECK(all.copy_of(*p).which == 0);
    CHECK(all.states().empty == 2);
    all.copy_completed(*p); // the call-back comes late
    CHECK(all.states().empty == 2);
}

TEST_CASE("slot_supply: a producer that waits too long for a callback checks the copies") {
    slot_supply_by_hand          all;
    slot_supply_by_hand::pinned* from = nullptr;
    slot_supply_by_hand::slot*   to   = nullptr;
    all.filled(*all.await_pinned(), 0);
    REQUIRE(all.claim(from, to));
    all.filled(*all.await_pinned(), 0);
    std::atomic<bool> got = true;
    std::thread       producer{[&] { got = all.await_pinned() != nullptr; }};
    while (all.looked == 0) { std::this_thread::yield(); }
    all.stop();
    producer.join();
    CHECK_FALSE(got);
}

namespace supplying {
/// A machine that would leave marks; the test does.
struct marking_platform : host_platform {
    static bool mark(stream, std::uint32_t*, std::uint32_t) noexcept { return true; }
};

struct marked_supply_by_hand final : slot_supply<marking_platform> {
    using supply = slot_supply<marking_platform>;

    static constexpr std::size_t slots = 3;

    marked_supply_by_hand() : slot_supply{{.pinned_depth = slots, .device_depth = slots}, {}} {
        for (std::size_t i = 0; i < slots; ++i) { pinned_[i].flag = &marks[i]; }
    }
    void copy_all() noexcept override {
        pinned* from = nullptr;
        slot*   to   = nullptr;
        for (bool more = claim(from, to); more;) {
            from->flagged = true;
            more          = copied(from, to, nullptr);
        }
    }
    void check_copies() noexcept override { ++looked; }
    void leave_mark(std::size_t i) {
        std::atomic_ref{marks[i]}.store(1, std::memory_order_release);
    }

    using supply::await_pinned;
    using supply::filled;

    std::uint32_t    marks[slots] = {};
    std::atomic<int> looked       = 0;
};
} // namespace supplying

TEST_CASE("slot_supply: of the threads that wait for completion flags one polls at a time") {
    supplying::marked_supply_by_hand all;
    for (std::size_t i = 0; i < all.slots; ++i) { all.filled(*all.await_pinned(), 0); }
    CHECK(all.states() == slot_states{.copying = 3, .ready = 3});
    std::atomic<std::size_t> got = 0;
    std::thread              producers[3];
    for (auto& p : producers) {
        p = std::thread{[&] { got += all.await_pinned() != nullptr; }};
    }
    while (all.states().waiting != 3) { std::this_thread::yield(); }
    auto const begun = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < all.slots; ++i) {
        CHECK(got == i);
        all.leave_mark(i);
        while (got == i) { std::this_thread::yield(); }
    }
    for (auto& p : producers) { p.join(); }
    CHECK(all.looked == 0);
    auto const took = std::chrono::steady_clock::now() - begun;
    CHECK(took < std::chrono::seconds{1}); // no thread slept until the next poll of the device
}
