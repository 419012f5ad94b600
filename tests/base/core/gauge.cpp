// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/gauge.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <atomic>

using namespace vram;
using namespace vram::detail;

TEST_CASE("gauge: an amount within the limit is added, and one above it changes nothing") {
    gauge g;
    CHECK(g.try_add(60, 100));
    CHECK_FALSE(g.try_add(41, 100));
    CHECK(g.used() == 60);
    CHECK(g.try_add(40, 100));
    CHECK_FALSE(g.try_add(1, 100));
    CHECK(g.try_add(0, 100));
    g.sub(100);
    CHECK(g.used() == 0);
}

TEST_CASE("gauge: sums do not overflow, and a limit below the level refuses") {
    gauge g;
    CHECK(g.try_add(10, ~std::size_t{0}));
    CHECK_FALSE(g.try_add(~std::size_t{0}, ~std::size_t{0}));
    CHECK_FALSE(g.try_add(~std::size_t{0} - 9, ~std::size_t{0}));
    CHECK_FALSE(g.try_add(0, 5));
    CHECK(g.used() == 10);
}

TEST_CASE("gauge: a move copies the level") {
    gauge first;
    CHECK(first.try_add(7, 10));
    gauge second = std::move(first);
    CHECK(first.used() == 0);
    CHECK(second.used() == 7);
    first = std::move(second);
    CHECK(first.used() == 7);
}

TEST_CASE("gauge: with many threads the level never exceeds the limit, and no fitting amount is "
          "refused") {
    gauge             g;
    std::atomic<bool> over    = false;
    std::atomic<bool> refused = false;
    // Two threads add 10 of 100, which always fits; two others try to add 1000, which never fits.
    auto const small = [&] {
        for (int i = 0; i < 20'000; ++i) {
            if (!g.try_add(10, 100)) {
                refused = true;
                continue;
            }
            over = over || g.used() > 100;
            g.sub(10);
        }
    };
    auto const large = [&] {
        for (int i = 0; i < 20'000; ++i) {
            if (!g.try_add(1'000, 100)) { continue; }
            over = true;
        }
    };
    { worker const a{0, small}, b{0, small}, c{0, large}, d{0, large}; }
    CHECK_FALSE(over);
    CHECK_FALSE(refused);
    CHECK(g.used() == 0);
}

TEST_CASE("gauge: requests that exceed the limit cannot make a fitting one fail") {
    gauge             g;
    std::atomic<int>  refused = 0;
    std::atomic<bool> stop    = false;
    {
        worker const greedy{0, [&] {
                                while (!stop) { (void)g.try_add(1'000, 100); }
                            }};
        for (int i = 0; i < 100'000; ++i) {
            if (g.try_add(10, 100)) {
                g.sub(10);
            } else {
                ++refused;
            }
        }
        stop = true;
    }
    CHECK(refused == 0);
}
