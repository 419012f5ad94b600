// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/live_bytes.hpp> // first: the header must stand alone

#include "../../doubles/turns.hpp"

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <list>
#include <random>
#include <utility>
#include <vector>

using vram::detail::live_bytes;
using vram::detail::worker;

TEST_CASE("live_bytes: the values of several threads are those of one counter at each moment") {
    for (unsigned seed = 0; seed != 4; ++seed) {
        live_bytes                counted;
        std::int64_t              live = 0, peak = 0;
        bool                      same = true;
        std::vector<std::int64_t> blocks; // freed by any thread
        std::minstd_rand          random{seed + 1};
        auto const                step = [&] {
            bool const adds = blocks.empty() || random() % 16 < 4 + 8 * (random() % 2);
            if (adds && blocks.size() < 60) {
                blocks.push_back(static_cast<std::int64_t>(1 + random() % 1000));
                counted.add(blocks.back());
                live += blocks.back();
                peak = std::max(peak, live);
            } else if (!blocks.empty()) {
                std::swap(blocks.back(), blocks[random() % blocks.size()]);
                counted.sub(blocks.back());
                live -= blocks.back();
                blocks.pop_back();
            }
            same = same && counted.now().live == live && counted.now().peak == peak;
        };
        doubles::take_turns(3000, random, step);
        CHECK(same);
        CHECK(peak > 0);
    }
}

TEST_CASE("live_bytes: the peak of threads at the same time is that of one of their orders") {
    constexpr int threads = 4;
    for (int run = 0; run != 10; ++run) {
        live_bytes        counted;
        std::barrier      all_live{threads};
        std::atomic<bool> good{true};
        std::list<worker> all;
        for (int t = 0; t != threads; ++t) {
            all.emplace_back(0, [&] {
                for (std::int64_t i = 0; i != 1000; ++i) { // at most 100 bytes for each thread
                    std::int64_t const n = 1 + i * 37 % 100;
                    counted.add(n);
                    auto const now = counted.now();
                    if (now.live < 0 || now.live > now.peak || now.peak < n) { good = false; }
                    counted.sub(n);
                }
                counted.add(100);
                all_live.arrive_and_wait();
                counted.sub(100);
            });
        }
        for (worker& each : all) { each.join(); }
        CHECK(good);
        CHECK(counted.now().live == 0);
        CHECK(counted.now().peak == 100 * threads);
    }
}
