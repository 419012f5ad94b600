// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/thread_team.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/bombing.hpp"
#include "../../laws/effort.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::thread_team<host_platform>;
template class vram::detail::thread_team<sim_platform>;

TEST_CASE("thread_team: every thread runs every job once, and the caller is the first of them") {
    for (unsigned size = 1; size <= 5; ++size) {
        thread_team<host_platform>    all{{}, size};
        std::vector<std::atomic<int>> done(size);
        CHECK(all.size() == size);
        for (int job = 1; job <= 50; ++job) {
            std::thread::id const caller = std::this_thread::get_id();
            std::atomic<bool>     mine   = false;
            all.run([&](unsigned thread) noexcept {
                ++done[thread];
                if (thread == 0) { mine = std::this_thread::get_id() == caller; }
            });
            CHECK(mine);
            for (auto const& each : done) { CHECK(each == job); }
        }
    }
}

TEST_CASE("thread_team: jobs of different types follow each other without allocation") {
    thread_team<host_platform> all{{}, 3};
    std::atomic<int>           sum    = 0;
    auto const                 before = doubles::host_allocations();
    auto                       ones   = [&](unsigned) noexcept { sum += 1; };
    auto const hundreds = [&](unsigned thread) noexcept { sum += 100 * (thread == 2); };
    all.run(ones);
    all.run(hundreds);
    all.run(ones);
    CHECK(doubles::host_allocations() == before);
    CHECK(sum == 106);
}

TEST_CASE("thread_team: a team that never had a job ends") {
    for (unsigned size = 1; size <= 4; ++size) { thread_team<host_platform> const all{{}, size}; }
    sim_node                        node;
    thread_team<sim_platform> const all{sim_device{}, 4};
}

TEST_CASE("thread_team: on the simulated device the threads work simultaneously") {
    sim_node                  node;
    thread_team<sim_platform> all{sim_device{}, 4};
    for (int i = 1; i <= 3; ++i) {
        all.run([](unsigned) noexcept { sim_work(sim_time{1000}); });
        CHECK((!sim_ordered_threads || node.now() == sim_time{i * 1000}));
    }
}

TEST_CASE("thread_team: on the simulated device the helpers wake one after the other" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_options options;
    options.costs.thread_wake = sim_time{5000};
    sim_node                  node{options};
    thread_team<sim_platform> all{sim_device{}, 4};
    sim_time                  began[4]; // each thread writes its own
    auto const                job = [&](unsigned thread) noexcept {
        began[thread] = node.now();
        sim_work(sim_time{40'000});
    };
    all.run(job); // the helpers go to sleep for the first time
    node.work(sim_time{100'000});
    sim_time const since = node.now();
    all.run(job);
    CHECK(began[0] == since); // the caller does not wait for them
    // Which helper wakes first is not fixed.
    CHECK(began[1] + began[2] + began[3] - 3 * since == sim_time{5000 + 10'000 + 15'000});
    // The caller polls for less than 50 us: it notices the end without being woken.
    CHECK(node.now() - since == sim_time{15'000 + 40'000});
}

namespace {
/// Threads of which the third cannot be started.
struct crew_of_two {
    using gate   = vram::detail::gate;
    using device = int;
    struct thread {
        template <class Body>
        thread(int, Body body) : ends{++started} {
            if (ends == 3) { throw std::runtime_error{"no more threads"}; }
            runs = worker{0, body};
        }
        void join() noexcept { runs.join(); }

        int               ends;
        worker            runs;
        static inline int started = 0;
    };
};
} // namespace

TEST_CASE("thread_team: if a thread cannot be started, the ones before it end") {
    CHECK_THROWS_AS((thread_team<crew_of_two>{0, 5}), std::runtime_error);
    CHECK(crew_of_two::thread::started == 3);
}

TEST_CASE("thread_team: every order of its threads is correct") {
    if constexpr (sim_ordered_threads) {
        auto const found = sim_explore(
            {.node = {.preemptions = laws::of_orders(2) == 2 ? 2U : 1U}}, [](sim_node&) {
                thread_team<sim_platform> all{sim_device{}, 3};
                int                       done[3] = {};
                for (int i = 1; i <= 2; ++i) {
                    all.run([&](unsigned thread) noexcept { ++done[thread]; });
                    for (int const each : done) {
                        if (each != i) { throw std::runtime_error{"a job was done too early"}; }
                    }
                }
            });
        CHECK(found.complete);
        CHECK(found.failures == 0);
    }
}
