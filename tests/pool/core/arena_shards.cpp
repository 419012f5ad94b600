// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/arena_shards.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <stdexcept>

using namespace vram;
using namespace vram::detail;

template class vram::detail::arena_shards<pool<sim_resource>>;

namespace {

/// Counts those that are alive.
struct counted_pool {
    explicit counted_pool(int n) : number{n} {
        if (n < 0) { throw std::runtime_error{"a pool that cannot be made"}; }
        ++alive;
    }
    counted_pool(counted_pool&&) = delete;
    ~counted_pool() { --alive; }

    int                            number;
    static inline std::atomic<int> alive = 0;
};

using places = arena_shards<counted_pool>;

} // namespace

TEST_CASE("arena_shards: a shard is created on first use, does not move, and ends with the arena") {
    {
        places all;
        CHECK(all.find(3) == nullptr);
        counted_pool& made = all.make(3, 30);
        CHECK(made.number == 30);
        CHECK(all.find(3) == &made);
        CHECK(&all.make(3, 31) == &made); // another thread was first
        CHECK(made.number == 30);
        all.make(places::most - 1, 63);
        int sum = 0;
        all.for_each([&](counted_pool const& each) { sum += each.number; });
        CHECK(sum == 93);

        places moved{std::move(all)};
        CHECK(moved.find(3) == &made);
        CHECK(all.find(3) == nullptr);
        all.make(0, 1);
        all = std::move(moved);
        CHECK(all.find(3) == &made);
        CHECK(all.find(0) == nullptr);
        CHECK(counted_pool::alive == 2);
    }
    CHECK(counted_pool::alive == 0);
}

TEST_CASE("arena_shards: no two shards share a cache line") {
    places     all;
    auto const first  = reinterpret_cast<std::uintptr_t>(&all.make(0, 0));
    auto const second = reinterpret_cast<std::uintptr_t>(&all.make(1, 1));
    auto const apart  = first < second ? second - first : first - second;
    CHECK(apart >= sizeof(counted_pool) + 128);
}

TEST_CASE("arena_shards: a shard that cannot be created leaves its place free") {
    places all;
    CHECK_THROWS_AS(all.make(2, -1), std::runtime_error);
    {
        doubles::bombing const armed{1};
        CHECK_THROWS_AS(all.make(2, 2), std::bad_alloc);
    }
    CHECK(all.find(2) == nullptr);
    CHECK(counted_pool::alive == 0);
    all.make(2, 2);
    CHECK(all.find(2) != nullptr);
}

TEST_CASE("arena_shards: concurrent threads create a shard once") {
    for (int round = 0; round < 50; ++round) {
        places        all;
        counted_pool* seen[4]{};
        {
            auto const ask = [&](int i) { return [&all, &seen, i] { seen[i] = &all.make(5, i); }; };
            worker const a{0, ask(0)}, b{0, ask(1)}, c{0, ask(2)}, d{0, ask(3)};
        }
        for (auto const* each : seen) { CHECK(each == all.find(5)); }
        CHECK(counted_pool::alive == 1);
    }
}
