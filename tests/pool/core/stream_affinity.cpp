// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/stream_affinity.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <new>
#include <random>
#include <set>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("stream_affinity: as many streams as seats have one each, for any keys") {
    std::mt19937_64 random{3};
    for (int round = 0; round < 200; ++round) {
        stream_affinity            seats{8};
        std::set<std::size_t>      taken;
        std::vector<std::uint64_t> keys;
        for (int i = 0; i < 8; ++i) {
            // Ids that count up, handles a page apart, and anything.
            keys.push_back(round % 3 == 0 ? 2 * static_cast<std::uint64_t>(i) + 1
                           : round % 3 == 1
                               ? 0x7f00'0000'0000U + 4096 * static_cast<std::uint64_t>(i)
                               : random() | 1);
            taken.insert(seats.of(keys.back()));
        }
        CHECK(taken.size() == 8);
        CHECK(*taken.rbegin() == 7);
        for (auto const key : keys) { CHECK(seats.of(key) == seats.of(key)); }
        CHECK(seats.known() == 8);
    }
}

TEST_CASE("stream_affinity: the seat of a forgotten stream is reused first") {
    stream_affinity seats{4};
    for (std::uint64_t key = 1; key <= 4; ++key) { (void)seats.of(key); }
    auto const left = seats.of(3);
    seats.forget(3);
    seats.forget(3); // again, and one that was never there
    seats.forget(99);
    CHECK(seats.known() == 3);
    CHECK(seats.of(5) == left);
    std::vector<int> on(4);
    for (std::uint64_t key = 6; key < 10; ++key) { ++on[seats.of(key)]; }
    CHECK(on == std::vector{1, 1, 1, 1});
}

TEST_CASE("stream_affinity: streams that stay are found beside others that come and go") {
    stream_affinity            seats{16};
    std::mt19937_64            random{9};
    std::vector<std::uint64_t> keys;
    std::vector<std::size_t>   expected;
    for (int i = 0; i < 20'000; ++i) {
        if (keys.size() < 200 && random() % 2 == 0) {
            keys.push_back(random() | 1);
            expected.push_back(seats.of(keys.back()));
        } else if (!keys.empty()) {
            std::size_t const at = random() % keys.size();
            CHECK(seats.of(keys[at]) == expected[at]);
            seats.forget(keys[at]);
            keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(at));
            expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
        }
        CHECK(seats.known() == keys.size());
    }
}

TEST_CASE("stream_affinity: streams that are never forgotten do not accumulate") {
    stream_affinity seats{8};
    for (std::uint64_t key = 1; key < 10'000; ++key) { CHECK(seats.of(key) < 8); }
    CHECK(seats.known() <= stream_affinity::most);
}

TEST_CASE("stream_affinity: all host memory is allocated by the constructor") {
    for (std::uint64_t n = 1; n <= 2; ++n) {
        doubles::bombing const armed{n};
        CHECK_THROWS_AS(stream_affinity{8}, std::bad_alloc);
    }
    stream_affinity seats{8};
    auto const      before = doubles::host_allocations();
    for (std::uint64_t key = 1; key < 1000; ++key) { (void)seats.of(key); }
    CHECK(doubles::host_allocations() == before);
}

TEST_CASE("stream_affinity: concurrent lookups and changes always give a seat") {
    stream_affinity   seats{8};
    std::atomic<bool> wrong = false;
    auto const        some  = [&](std::uint64_t first) {
        return [&, first] {
            for (std::uint64_t i = 0; i < 3000; ++i) {
                if (seats.of(1000) >= 8 || seats.of(first + i % 50) >= 8) { wrong = true; }
                if (i % 3 == 0) { seats.forget(first + (i + 25) % 50); }
            }
        };
    };
    { worker const a{0, some(1)}, b{0, some(101)}, c{0, some(201)}, d{0, some(301)}; }
    CHECK_FALSE(wrong);
}
