// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/event_ring.hpp> // first: the header stands alone

#include <vram/base/core/thread_number.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

using vram::detail::event_ring;
using vram::detail::thread_number;

namespace {
void append_to(event_ring& ring, std::uint64_t n, unsigned number = thread_number()) {
    ring.append(number, [&](event_ring::place to) {
        to.store(0, n);
        to.store(1, n * n);
    });
}
std::vector<std::uint64_t> firsts(event_ring const& ring) {
    std::vector<std::uint64_t> all;
    ring.read([&](std::uint64_t const* words) {
        CHECK(words[1] == words[0] * words[0]);
        all.push_back(words[0]);
    });
    return all;
}
} // namespace

TEST_CASE("event_ring: records are read in the order of their thread") {
    event_ring ring{100, 2};
    CHECK(firsts(ring).empty());
    for (std::uint64_t i = 0; i != 50; ++i) { append_to(ring, i); }
    auto const all = firsts(ring);
    REQUIRE(all.size() == 50);
    for (std::uint64_t i = 0; i != 50; ++i) { CHECK(all[i] == i); }
    CHECK(ring.appended() == 50);
    CHECK(ring.overwritten() == 0);
    CHECK(ring.horizon() == 0);
    CHECK(ring.width() == 2);
}

TEST_CASE("event_ring: the last records stay, beside those of a thread that waits") {
    event_ring ring{32, 2};
    append_to(ring, 1'000'000, 7); // another thread's page stays in use
    for (std::uint64_t i = 0; i != 10'000; ++i) { append_to(ring, i, 3); }
    auto const    all    = firsts(ring);
    bool          waits  = false;
    std::uint64_t newest = 0;
    for (std::uint64_t const n : all) {
        waits |= n == 1'000'000;
        newest += n >= 10'000 - 32 && n < 10'000;
    }
    CHECK(waits);
    CHECK(newest == 32);
    CHECK(ring.horizon() + all.size() == 10'000);
    CHECK(all.size() + ring.overwritten() == ring.appended());
}

TEST_CASE("event_ring: numbers of many threads, also beyond those that are unique") {
    event_ring ring{32, 2};
    for (unsigned number = 0; number != 1200; ++number) { append_to(ring, number, number); }
    CHECK(ring.appended() == 1200);
    CHECK(firsts(ring).size() + ring.overwritten() == 1200);
}

TEST_CASE("event_ring: of any number of threads, the last records stay") {
    for (unsigned const threads : {64U, 65U, 80U, 200U, 1100U}) {
        CAPTURE(threads);
        event_ring    ring{32, 2};
        std::uint64_t next = 1;
        for (unsigned number = 0; number != threads; ++number) { append_to(ring, next++, number); }
        for (int i = 0; i != 100; ++i) { append_to(ring, next++, threads - 1); }
        auto const all = firsts(ring);
        for (std::uint64_t n = next - 32; n != next; ++n) {
            CHECK(std::ranges::count(all, n) == 1);
        }
        CHECK(ring.appended() == next - 1);
        CHECK(all.size() + ring.overwritten() == next - 1);
        CHECK(ring.horizon() < next - 32);
        CHECK(std::ranges::count(all, 1) == 1); // that of an idle thread
    }
}

TEST_CASE("event_ring: without host memory for more pages, the last records stay") {
    event_ring ring{1024, 2}; // pages of 64 records
    append_to(ring, 1, 3);
    for (std::uint64_t n = 2; n != 1000; ++n) {
        doubles::bombing const armed{1};
        append_to(ring, n, 3);
    }
    doubles::bombing armed{1};
    append_to(ring, 1000, 4); // no page has memory for it
    CHECK(armed.defuse());
    auto const all = firsts(ring);
    CHECK(std::ranges::count(all, 999) == 1);
    CHECK(std::ranges::count(all, 1000) == 0);
    CHECK(ring.appended() == 1000);
    CHECK(all.size() + ring.overwritten() == 1000);
    CHECK(ring.horizon() + all.size() == 999);
    append_to(ring, 1001, 4);
    CHECK(std::ranges::count(firsts(ring), 1001) == 1);
}

TEST_CASE("event_ring: no record is torn while a thread writes") {
    event_ring  ring{64, 2};
    std::thread writer{[&] {
        for (std::uint64_t i = 0; i != 100'000; ++i) { append_to(ring, i); }
    }};
    for (int i = 0; i != 50; ++i) { (void)firsts(ring); }
    writer.join();
    CHECK(ring.appended() == 100'000);
}
