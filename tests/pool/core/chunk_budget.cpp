// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_budget.hpp> // first: the header stands alone

#include <vram/concepts/core/platform_lock.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <utility>

// The calls of an upstream are tested through the owners: growing_base.cpp, chunk_directory.cpp.

using namespace vram;
using namespace vram::detail;

namespace {

using mutex_type = platform_lock<host_platform>;

} // namespace

TEST_CASE("chunk_budget: claimed bytes count until they are kept or released") {
    mutex_type   mutex;
    chunk_budget budget{1000};
    CHECK(budget.limit() == 1000);
    {
        chunk_budget::claim first{budget, mutex, 600};
        CHECK(first.granted());
        CHECK(budget.room() == 400);
        CHECK(budget.usage.reserved == 0);
        chunk_budget::claim const second{budget, mutex, 401};
        CHECK_FALSE(second.granted());
        chunk_budget::claim const third{budget, mutex, 400};
        CHECK(third.granted());
        CHECK(budget.room() == 0);
        auto const held = mutex.hold();
        first.keep();
        CHECK(budget.usage.reserved == 600);
    }
    CHECK(budget.room() == 400);
    CHECK(budget.usage.peak_reserved == 600);
}

TEST_CASE("chunk_budget: bytes that are being returned count against the limit until they are") {
    mutex_type   mutex;
    chunk_budget budget{1000};
    {
        chunk_budget::claim mine{budget, mutex, 1000};
        auto const          held = mutex.hold();
        mine.keep();
    }
    auto held = mutex.hold();
    budget.release(100); // pages inside a chunk
    CHECK(budget.room() == 100);
    budget.give_back(400, held, [&] {
        CHECK_FALSE(held.owns_lock());
        CHECK(budget.usage.reserved == 500);
        CHECK(budget.room() == 100);
    });
    CHECK(held.owns_lock());
    CHECK(budget.room() == 500);
    CHECK(budget.usage.upstream == 1);
}

TEST_CASE("chunk_budget: the most bytes ever reserved survive a reset of the peaks and a move") {
    mutex_type   mutex;
    chunk_budget budget{1000};
    {
        chunk_budget::claim mine{budget, mutex, 700};
        auto const          held = mutex.hold();
        mine.keep();
    }
    auto held = mutex.hold();
    budget.give_back(700, held, [] {});
    (void)budget.usage.restart_peaks();
    CHECK(budget.usage.peak_reserved == 0);
    CHECK(budget.most_reserved() == 700);
    chunk_budget moved{std::move(budget)};
    CHECK(moved.most_reserved() == 700);
    CHECK(moved.limit() == 1000);
    CHECK(moved.usage.restarts == 1);
    CHECK(budget.most_reserved() == 0);
    CHECK(budget.usage == memory_usage{});
}
