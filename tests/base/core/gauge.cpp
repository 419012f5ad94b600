// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/gauge.hpp> // first: the header stands alone

#include "../../doubles/turns.hpp"

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("gauge: an amount within the limit is added, and one above it changes nothing") {
    gauge g{100};
    CHECK(g.limit() == 100);
    CHECK(g.try_add(60));
    CHECK_FALSE(g.try_add(41));
    CHECK(g.used() == 60);
    CHECK(g.try_add(40));
    CHECK_FALSE(g.try_add(1));
    CHECK(g.try_add(0));
    g.sub(100);
    CHECK(g.used() == 0);
}

TEST_CASE("gauge: sums do not overflow") {
    gauge      g{~std::size_t{0}};
    auto const check = [&] {
        CHECK(g.try_add(10));
        CHECK_FALSE(g.try_add(~std::size_t{0}));
        CHECK_FALSE(g.try_add(~std::size_t{0} - 9));
        CHECK(g.used() == 10);
        CHECK(g.try_add(~std::size_t{0} - 10));
        CHECK(g.used() == ~std::size_t{0});
        g.sub(~std::size_t{0});
    };
    check();
    worker{0, check}.join();
    CHECK(g.used() == 0);
}

TEST_CASE("gauge: a move copies the level, also with several threads") {
    gauge      first{10};
    auto const check = [&] {
        CHECK(first.try_add(7));
        gauge second = std::move(first);
        CHECK(first.used() == 0);
        CHECK(second.used() == 7);
        CHECK_FALSE(second.try_add(4));
        CHECK(first.try_add(10)); // it has its limit and is empty
        first.sub(10);
        first = std::move(second);
        CHECK(first.used() == 7);
        CHECK(second.used() == 0);
        CHECK(first.try_add(3));
        CHECK_FALSE(first.try_add(1));
        first.sub(10);
    };
    check();
    worker{0, check}.join();
    check();
}

TEST_CASE("gauge: with threads by turns each answer is that of one counter") {
    for (unsigned seed = 0; seed != 8; ++seed) {
        constexpr std::size_t    limit = 1000;
        gauge                    g{limit};
        std::size_t              model = 0;
        std::vector<std::size_t> live; // subtracted by any thread
        std::minstd_rand         random{seed + 1};
        bool                     same = true;
        doubles::take_turns(4000, random, [&] {
            std::size_t const n = random() % (random() % 8 == 0 ? 400 : 40);
            if (random() % 16 < 9) {
                bool const fits = n <= limit - model;
                same            = same && g.try_add(n) == fits;
                if (fits) { model += n, live.push_back(n); }
            } else if (!live.empty()) {
                std::swap(live.back(), live[random() % live.size()]);
                g.sub(live.back()), model -= live.back(), live.pop_back();
            }
            if (random() % 16 == 0) { same = same && g.used() == model; }
            if (random() % 256 == 0) { // to the last byte, and no further
                same = same && !g.try_add(limit - model + 1) && g.try_add(limit - model) &&
                       !g.try_add(1) && g.used() == limit;
                g.sub(limit - model);
            }
        });
        CHECK(same);
        CHECK(g.used() == model);
    }
}

TEST_CASE("gauge: bytes that one thread has subtracted are free for each other thread") {
    gauge g{100};
    CHECK(g.try_add(50));
    worker{0, [&] { CHECK(g.try_add(50)); }}.join();
    CHECK_FALSE(g.try_add(1));
    worker{0, [&] { g.sub(98); }}.join(); // all free bytes are in the shard of another thread
    CHECK_FALSE(g.try_add(99));
    CHECK(g.used() == 2);
    CHECK(g.try_add(98));
    CHECK_FALSE(g.try_add(1));
    CHECK(g.used() == 100);
}

TEST_CASE("gauge: with many threads the level never exceeds the limit, and no fitting amount is "
          "refused") {
    gauge             g{100};
    std::atomic<bool> over    = false;
    std::atomic<bool> refused = false;
    // Two threads add 10 of 100, which always fits; two others try to add 1000, which never fits.
    auto const small = [&] {
        for (int i = 0; i < 10'000; ++i) {
            if (!g.try_add(10)) {
                refused = true;
                continue;
            }
            over = over || g.used() > 100;
            g.sub(10);
        }
    };
    auto const large = [&] {
        for (int i = 0; i < 10'000; ++i) {
            if (!g.try_add(1'000)) { continue; }
            over = true;
        }
    };
    { worker const a{0, small}, b{0, small}, c{0, large}, d{0, large}; }
    CHECK_FALSE(over);
    CHECK_FALSE(refused);
    CHECK(g.used() == 0);
}

TEST_CASE("gauge: threads that together reach the limit exactly are not refused, in any order") {
    // Four threads with up to 25 of 100 bytes each: every request fits, but often only with bytes
    // that are in the shards of others. Each byte is passed on to the next thread to be subtracted.
    gauge                    g{100};
    std::atomic<unsigned>    to_subtract[4]{};
    std::atomic<std::size_t> refused{0}, in_use{0}, most{0};
    std::list<worker>        all;
    for (unsigned t = 0; t != 4; ++t) {
        all.emplace_back(0, [&, t] {
            std::minstd_rand random{t + 1};
            for (int i = 0; i != 10'000; ++i) {
                unsigned const n = 1 + static_cast<unsigned>(random() % 25);
                if (to_subtract[t] == 0) { // the next thread has subtracted the last request
                    if (!g.try_add(n)) {
                        ++refused;
                        continue;
                    }
                    std::size_t const now = in_use += n;
                    for (auto seen = most.load(); seen < now;) {
                        if (most.compare_exchange_weak(seen, now)) { break; }
                    }
                    to_subtract[t] = n;
                }
                auto& of_other = to_subtract[(t + 3) % 4];
                if (unsigned const m = of_other; m != 0) {
                    in_use -= m;
                    g.sub(m);
                    of_other = 0;
                }
            }
        });
    }
    for (worker& each : all) { each.join(); }
    CHECK(refused == 0);
    CHECK(most <= 100);
    std::size_t left = 0;
    for (auto const& each : to_subtract) { left += each; }
    CHECK(g.used() == left);
}
