// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/staged_wait.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace waiting_in_stages {
/// A machine that would write completion flags; the test does.
struct flag_platform : host_platform {
    static bool mark(stream, std::uint32_t*, std::uint32_t) noexcept { return true; }
};

/// Copies of three blocks, in order, of which the test ends each.
template <class Platform>
struct copies_by_hand {
    using pinned = pinned_slot<Platform>;

    copies_by_hand() {
        for (std::uint32_t& flag : flags) {
            pinned& p = blocks.emplace_back(typename Platform::device{}, false);
            p.flag    = &flag;
        }
    }
    void begin(std::size_t i) {
        blocks[i].now         = pinned::state::copying;
        blocks[i].copy_number = 1;
        blocks[i].sequence    = i + 1;
        ++under_way;
    }
    void write_flag(std::size_t i) {
        std::atomic_ref{flags[i]}.store(1, std::memory_order_release);
    }

    [[nodiscard]] std::size_t in_progress() const noexcept { return under_way; }
    [[nodiscard]] pinned*     oldest_flagged() noexcept {
        for (pinned& p : blocks) {
            if (p.now == pinned::state::copying) { return &p; }
        }
        return nullptr;
    }
    void complete(pinned& p) noexcept {
        p.now = pinned::state::empty;
        --under_way;
        ++complete_ones;
    }
    void complete_flagged() noexcept {}
    void check_copies() noexcept { ++checks; }

    std::uint32_t       flags[3] = {};
    std::vector<pinned> blocks;
    std::size_t         under_way = 0, complete_ones = 0;
    std::atomic<int>    checks = 0;
};
auto const never = [] { return false; };

/// A condition that is false, and throws when it is tested for the `n`-th time.
struct throwing_condition {
    int n;

    bool operator()() {
        if (--n == 0) { throw n; }
        return false;
    }
};

bool none_waits(waiting_threads const& all) {
    return all.idle == 0 && all.awake == 0 && !all.polling && !all.backing_off;
}
} // namespace waiting_in_stages
using namespace waiting_in_stages;

TEST_CASE("staged_wait: of the threads that wait for completion flags one polls at a time") {
    staged_wait<flag_platform>    threads;
    copies_by_hand<flag_platform> copies;
    std::atomic<std::size_t>      got = 0;
    for (std::size_t i = 0; i < 3; ++i) { copies.begin(i); }
    auto const begun = std::chrono::steady_clock::now();
    {
        std::vector<worker> waiting;
        for (std::size_t i = 0; i < 3; ++i) {
            waiting.emplace_back(0, [&] {
                auto held = threads.hold();
                threads.wait_for_copies(held, copies, [&] { return copies.complete_ones > got; });
                ++got;
            });
        }
        for (bool all = false; !all; std::this_thread::yield()) {
            auto const held = threads.hold();
            all             = threads.waiting().idle == 3;
        }
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(got == i);
            copies.write_flag(i);
            while (got == i) { std::this_thread::yield(); }
        }
    }
    CHECK(copies.checks == 0);
    CHECK(threads.waiting().idle == 0);
    // No thread slept until the next query of the events.
    CHECK(std::chrono::steady_clock::now() - begun < 1s);
}

TEST_CASE("staged_wait: a thread that polls a flag releases the lock, and also ends if it need not "
          "wait any more") {
    staged_wait<flag_platform>    threads;
    copies_by_hand<flag_platform> copies;
    copies.begin(0);
    bool         ready = false;
    worker const other{0, [&] {
                           for (bool polling = false; !polling; std::this_thread::yield()) {
                               auto const held = threads.hold();
                               polling         = threads.waiting().polling;
                               CHECK(threads.waiting().awake == threads.waiting().polling);
                               ready = polling;
                           }
                       }};
    auto         held = threads.hold();
    threads.wait_for_copies(held, copies, [&] { return ready; });
    CHECK(held.owns_lock());
    CHECK(copies.complete_ones == 0);
}

TEST_CASE("staged_wait: a copy without a sign of its end is queried after a second") {
    staged_wait<host_platform>    threads;
    copies_by_hand<host_platform> copies;
    copies.begin(0);
    auto const begun = std::chrono::steady_clock::now();
    auto       held  = threads.hold();
    threads.wait_for_copies(held, copies, [&] { return copies.checks != 0; });
    CHECK(held.owns_lock());
    CHECK(std::chrono::steady_clock::now() - begun >= 1s);
}

TEST_CASE("staged_wait: a copy whose flag is not written is queried after a second") {
    staged_wait<flag_platform>    threads;
    copies_by_hand<flag_platform> copies;
    copies.begin(0);
    auto const begun = std::chrono::steady_clock::now();
    auto       held  = threads.hold();
    threads.wait_for_copies(held, copies, [&] { return copies.checks != 0; });
    CHECK(std::chrono::steady_clock::now() - begun >= 1s);
    CHECK_FALSE(threads.waiting().polling);
}

TEST_CASE("staged_wait: without a copy in progress, a thread that waits eagerly stays awake while "
          "it is wanted") {
    staged_wait<host_platform>    threads;
    copies_by_hand<host_platform> copies;
    for (bool const wanted : {true, false}) {
        bool         ready = false;
        worker const waiting{0, [&] {
                                 auto held = threads.hold();
                                 (void)threads.wait_eagerly(
                                     held, copies, [&] { return ready; }, [&] { return wanted; });
                             }};
        std::this_thread::sleep_for(50ms + 5 * threads.spin);
        {
            auto const held = threads.hold();
            CHECK(threads.waiting().idle == 1);
            CHECK((threads.waiting().awake == 1) == wanted);
            CHECK(threads.waiting().backing_off == wanted);
            ready = true;
        }
        threads.notify();
    }
    auto held = threads.hold();
    CHECK(threads.wait_eagerly(held, copies, [] { return true; }, never) == 0);
}

TEST_CASE("staged_wait: a thread that waits for copies sleeps until one begins") {
    staged_wait<host_platform>    threads;
    copies_by_hand<host_platform> copies;
    bool                          ready = false;
    {
        worker const waiting{0, [&] {
                                 auto held = threads.hold();
                                 threads.wait_for_copies(held, copies, [&] { return ready; });
                             }};
        for (bool idle = false; !idle; std::this_thread::yield()) {
            auto const held = threads.hold();
            idle            = threads.waiting().idle == 1;
            CHECK(threads.waiting().awake == 0);
        }
        {
            auto const held = threads.hold();
            ready           = true;
        }
        threads.notify();
    }
    CHECK(threads.waiting().idle == 0);
}

TEST_CASE("staged_wait: a wait with a limit ends at the limit") {
    staged_wait<host_platform> threads;
    auto                       held = threads.hold();
    CHECK_FALSE(threads.wait_at_most(held, 1ms, never));
    CHECK(threads.wait_at_most(held, 1ms, [] { return true; }));
    int calls = 0;
    CHECK(threads.wait_at_most(held, 0ms, [&] { return ++calls > 1; }));
}

TEST_CASE_TEMPLATE("staged_wait: a limit that is too long for the clock is no limit" *
                       doctest::skip(!sim_ordered_threads) *
                       doctest::description("simulated time jumps if threads run freely"),
                   Platform, host_platform, sim_platform) {
    [[maybe_unused]] sim_node node;
    staged_wait<Platform>     threads;
    for (auto const most : {std::chrono::nanoseconds::max(), staged_wait<Platform>::longest}) {
        bool                      ready = false;
        typename Platform::thread t{typename Platform::device{}, [&] {
                                        std::this_thread::sleep_for(5ms);
                                        {
                                            auto const held = threads.hold();
                                            ready           = true;
                                        }
                                        threads.notify();
                                    }};
        {
            auto held = threads.hold();
            CHECK(threads.wait_at_most(held, most, [&] { return ready; }));
        }
        t.join();
    }
}

TEST_CASE(
    "staged_wait: a simulated thread that is notified within the polls takes no time to wake" *
    doctest::skip(!sim_ordered_threads) *
    doctest::description("threads run freely under ThreadSanitizer")) {
    for (sim_time const after : {100us, 101us}) {
        sim_options options;
        options.costs.thread_wake = 5us;
        sim_node                  node{options};
        staged_wait<sim_platform> gate;
        bool                      ready = false;
        sim_thread                t{sim_device{}, [&] {
                         sim_work(after);
                         {
                             auto held = gate.hold();
                             ready     = true;
                         }
                         gate.notify();
                     }};
        {
            auto held = gate.hold();
            CHECK(gate.wait_at_most(held, 0ns, [&] { return ready; }));
        }
        CHECK(node.now() == (after == sim_time{100us} ? sim_time{100us} : sim_time{106us}));
        t.join();
    }
}

TEST_CASE_TEMPLATE("staged_wait: a thread whose condition throws does not wait any more", Platform,
                   host_platform, flag_platform) {
    for (bool const copying : {false, true}) {
        bool const polls = !copying || completion_flags<Platform>;
        for (int n = 1; n <= (polls ? 12 : 4); ++n) { // more tests would need another thread
            CAPTURE(n);
            staged_wait<Platform>    threads;
            copies_by_hand<Platform> copies;
            if (copying) { copies.begin(0); }
            auto               held = threads.hold();
            throwing_condition ready{n};
            auto const         test = [&] { return ready(); };
            CHECK_THROWS_AS((void)threads.wait_eagerly(held, copies, test, [] { return true; }),
                            int);
            CHECK(none_waits(threads.waiting()));
            if (!copying && n > 4) { continue; }
            ready.n = n;
            CHECK_THROWS_AS(threads.wait_for_copies(held, copies, test), int);
            CHECK(none_waits(threads.waiting()));
            CHECK(held.owns_lock());
        }
    }
}

TEST_CASE("staged_wait: a thread whose wait is a deadlock does not wait any more" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node                     node{{.on_report = sim_on_report::collect}};
    staged_wait<sim_platform>    threads;
    copies_by_hand<sim_platform> copies;
    bool                         told = false;
    sim_thread                   waiting{sim_device{}, [&] {
                           auto held = threads.hold();
                           try {
                               threads.wait_for_copies(held, copies, never);
                           } catch (sim_error const& e) {
                               told = e.status() == sim_status::deadlock;
                           }
                           CHECK(none_waits(threads.waiting()));
                       }};
    waiting.join();
    CHECK(told);
    CHECK(none_waits(threads.waiting()));
}
