// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/growth_envelope.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>

using vram::detail::growth_envelope;
using vram::detail::steady_rise;

namespace growth_envelope_test {

constexpr std::uint64_t least = 32;

/// Adds `steps` sizes and returns the number of steps at which a rise was found.
template <class Size>
std::uint64_t alarms(growth_envelope& sizes, std::uint64_t steps, Size size) {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < steps; ++i) {
        sizes.add(size(i));
        count += sizes.rise(least).found() ? 1U : 0U;
    }
    return count;
}

TEST_CASE("growth_envelope: a growth is found with its begin and its height") {
    growth_envelope sizes;
    CHECK(alarms(sizes, 13, [](auto) { return 5000; }) == 0); // the last step before it is 12
    CHECK(alarms(sizes, 31, [](auto i) { return 5000 + 300 * (i + 1); }) == 0);
    CHECK(alarms(sizes, 69, [](auto i) { return 5000 + 300 * (i + 32); }) == 69);
    steady_rise const found = sizes.rise(least);
    CHECK(found.since == 12);
    CHECK(found.until == 112);
    CHECK(found.from == 5000);
    CHECK(found.bytes() == 300 * found.steps());
}

TEST_CASE("growth_envelope: a constant size and a falling one are no growth") {
    growth_envelope flat, falling;
    CHECK(alarms(flat, 1000, [](auto) { return 7; }) == 0);
    CHECK(alarms(falling, 1000, [](auto i) { return 5000 - i; }) == 0);
    CHECK(flat.steps() == 1000);
    growth_envelope none;
    CHECK_FALSE(none.rise(least).found());
}

TEST_CASE("growth_envelope: a warm-up that ends is no growth after its end") {
    for (std::uint64_t const warm : {1, 5, 20, 200}) {
        growth_envelope sizes;
        alarms(sizes, warm, [](auto i) { return 100 * i; });
        alarms(sizes, warm, [&](auto) { return 100 * warm; });
        CHECK(alarms(sizes, 1000, [&](auto) { return 100 * warm; }) == 0);
    }
}

TEST_CASE("growth_envelope: a jump or two is no growth") {
    growth_envelope sizes;
    CHECK(alarms(sizes, 900, [](auto i) { return 1000 + 500 * (i / 300); }) == 0);
}

TEST_CASE("growth_envelope: noise is no growth") {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        growth_envelope     sizes;
        std::minstd_rand    random{seed};
        std::uint64_t const bad =
            alarms(sizes, 3000, [&](auto) { return 1'000'000 + random() % 100'000; });
        CHECK(bad == 0);
    }
}

TEST_CASE("growth_envelope: a sawtooth is no growth, also with noise and after the first tooth") {
    for (std::uint64_t const period : {2, 3, 10, 31}) {
        growth_envelope sizes;
        CHECK(alarms(sizes, 2000, [&](auto i) { return 100 + 50 * (i % period); }) == 0);
    }
    for (std::uint64_t const period : {40, 100, 333}) {
        growth_envelope sizes;
        alarms(sizes, period, [&](auto i) { return 100 + 50 * i; }); // cannot be told from growth
        CHECK(alarms(sizes, 2000, [&](auto i) { return 100 + 50 * (i % period); }) == 0);
    }
    for (unsigned seed = 1; seed <= 10; ++seed) {
        growth_envelope  sizes;
        std::minstd_rand random{seed};
        CHECK(alarms(sizes, 3000,
                     [&](auto i) { return 10'000 + 1000 * (i % 25) + random() % 3000; }) == 0);
    }
}

TEST_CASE("growth_envelope: a growth under a sawtooth or under noise is found") {
    growth_envelope teeth;
    alarms(teeth, 1000, [](auto i) { return 10'000 + 500 * (i % 20) + 100 * i; });
    CHECK(teeth.rise(least).found());
    for (unsigned seed = 1; seed <= 20; ++seed) {
        growth_envelope  noise;
        std::minstd_rand random{seed};
        CHECK(alarms(noise, 500, [&](auto) { return 50'000 + random() % 10'000; }) == 0);
        alarms(noise, 500, [&](auto i) { return 50'000 + random() % 10'000 + 200 * i; });
        steady_rise const found = noise.rise(least);
        CHECK(found.found());
        CHECK(found.since >= 350);
        CHECK(found.since <= 650);
        CHECK(found.bytes() / found.steps() >= 140);
        CHECK(found.bytes() / found.steps() <= 260);
    }
}

TEST_CASE("growth_envelope: a growth by steps is found, and one that stops is not") {
    growth_envelope stairs;
    alarms(stairs, 400, [](auto i) { return 100 + 1000 * (i / 25); });
    CHECK(stairs.rise(least).found());
    CHECK(alarms(stairs, 400, [](auto) { return 100 + 1000 * 15; }) < 150);
    CHECK_FALSE(stairs.rise(least).found());
}

TEST_CASE("growth_envelope: after a warm-up and a plateau, a growth has its own begin") {
    for (std::uint64_t const rate : {1000U, 2000U, 5000U}) {
        for (std::uint64_t const plateau : {150U, 300U}) {
            for (unsigned seed = 1; seed <= 4; ++seed) {
                growth_envelope     sizes;
                std::minstd_rand    random{seed};
                std::uint64_t const warm = 50, onset = warm + plateau;
                unsigned            found = 0;
                for (std::uint64_t i = 0; i < 1500; ++i) {
                    std::uint64_t const leaked = i > onset ? rate * (i - onset) : 0;
                    std::uint64_t const cached = 5000 * (i < warm ? i : warm);
                    sizes.add(1'000'000 + cached + leaked + random() % 4000);
                    if (i % 25 != 0 || i < warm + 50) { continue; }
                    steady_rise const rise = sizes.rise(least);
                    if (i <= onset) { CHECK_FALSE(rise.found()); }
                    if (!rise.found()) { continue; }
                    ++found;
                    CAPTURE(rate);
                    CAPTURE(plateau);
                    CAPTURE(i);
                    CHECK(rise.since + onset / 10 + 10 >= onset);
                    CHECK(rise.since <= onset + onset / 10 + 10);
                }
                CHECK(found >= 45 - plateau / 25);
            }
        }
    }
}

TEST_CASE("growth_envelope: growth by jumps, or with noise, begins at its first step") {
    for (std::uint64_t const flat : {10U, 40U, 90U}) {
        growth_envelope stairs;
        for (std::uint64_t i = 0; i < 1500; ++i) {
            stairs.add(1000 + 1000 * (i / flat));
            steady_rise const rise = stairs.rise(least);
            if (rise.found()) { CHECK(rise.since <= 2 * flat); }
        }
        CHECK(stairs.rise(least).found());
    }
    for (unsigned seed = 1; seed <= 20; ++seed) {
        growth_envelope  noise;
        std::minstd_rand random{seed};
        for (std::uint64_t i = 0; i < 1500; ++i) {
            noise.add(50'000 + random() % 10'000 + 200 * i);
            steady_rise const rise = i % 10 == 0 ? noise.rise(least) : steady_rise{};
            if (rise.found()) { CHECK(rise.since <= 50); }
        }
        CHECK(noise.rise(least).found());
    }
}

TEST_CASE("growth_envelope: a growth over more steps than entries is still found from its begin") {
    growth_envelope sizes;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        sizes.add(i < 1000 ? 500 : 500 + 16 * (i - 999));
    }
    steady_rise const found = sizes.rise(least);
    CHECK(found.since == 999);
    CHECK(found.bytes() == 16 * found.steps());
}

} // namespace growth_envelope_test
