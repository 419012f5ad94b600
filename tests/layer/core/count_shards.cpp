// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/core/count_shards.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/turns.hpp"

#include <vram/base/core/worker.hpp>
#include <vram/layer/statistics.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using detail::worker;

namespace count_shards_test {

/// A resource without figures: `statistics` over it counts itself.
struct nothing_counted {
    using platform   = host_platform;
    using properties = property_set<host_accessible>;

    void* allocate_sync(std::size_t, std::size_t = default_alignment) { return this; }
    void  deallocate_sync(void*, std::size_t, std::size_t = default_alignment) noexcept {}
    bool  operator==(nothing_counted const&) const = default;
};
using counted = statistics<nothing_counted>;

TEST_CASE("count_shards: the counts of several threads are those of a model at each moment, with "
          "their peaks") {
    for (unsigned seed = 0; seed != 4; ++seed) {
        counted                  memory;
        counters                 model, scope_model;
        bool                     scope = false, same = true;
        std::uint64_t            number = 0;
        std::vector<std::size_t> live; // freed by any thread
        std::minstd_rand         random{seed + 1};
        auto const               step = [&] {
            bool const adds = live.empty() || random() % 16 < 4 + 8 * (random() % 2);
            if (adds && live.size() < 60) {
                std::size_t const n = 1 + random() % 1000;
                live.push_back(n);
                (void)memory.allocate_sync(n);
                for (counters* each : {&model, &scope_model}) {
                    each->bytes.add(n), each->blocks.add(1);
                }
            } else if (!live.empty()) {
                std::swap(live.back(), live[random() % live.size()]);
                memory.deallocate_sync(&memory, live.back());
                for (counters* each : {&model, &scope_model}) {
                    each->bytes.sub(live.back()), each->blocks.sub(1);
                }
                live.pop_back();
            }
            if (random() % 64 == 0) { same = same && memory.overall() == model; }
            if (random() % 128 == 0) {
                if (scope) {
                    same = same && memory.pop(number) == scope_model;
                } else {
                    number = memory.push(), scope_model = {};
                }
                scope = !scope;
            }
        };
        doubles::take_turns(2000, random, step);
        CHECK(same);
        CHECK(memory.overall() == model);
        counted const moved{std::move(memory)};
        CHECK(moved.overall() == model);
    }
}

TEST_CASE("count_shards: threads that count at the same time lose nothing") {
    counted           memory;
    std::list<worker> threads;
    for (unsigned t = 0; t != 4; ++t) {
        threads.emplace_back(0, [&, t] {
            for (std::size_t i = 1; i != 2000; ++i) {
                (void)memory.allocate_sync(i);
                if (i % 500 == 0) { (void)memory.overall(); }
                memory.deallocate_sync(&memory, i);
            }
            (void)memory.allocate_sync(t + 1);
        });
    }
    for (worker& each : threads) { each.join(); }
    counters const all = memory.overall();
    CHECK(all.bytes.value == 10);
    CHECK(all.blocks.value == 4);
    CHECK(all.bytes.total == 4 * 1999 * 1000 + 10);
    CHECK(all.blocks.total == 4 * 2000);
    CHECK(all.bytes.peak >= all.bytes.value); // it may be too low: threads often raise it
    CHECK(all.bytes.peak <= 4 * 1999);
    CHECK(all.blocks.peak <= 4);
}

/// The counters of threads that call one after another, each in its own shard.
struct one_by_one : detail::count_shards<detail::no_histograms> {
    using base = detail::count_shards<detail::no_histograms>;

    [[nodiscard]] bool try_add(std::size_t n) { return mine().try_add(n); }
    void               add(counters& sums, std::size_t n) { base::add(sums, mine(), n); }
    void               sub(std::size_t n) { mine().sub(n); }
    void               refuse() { ++mine().refusals; }

private:
    shard& mine() {
        if (shard* const found = base::mine([] {})) { return *found; }
        worker{0, [this] { (void)base::mine([] {}); }}
            .join(); // a second thread: now there are shards
        return *base::mine([] {});
    }
};

TEST_CASE("count_shards: an addition within the room of the thread raises no peak") {
    one_by_one shards;
    counters   sums;
    CHECK_FALSE(shards.try_add(10));
    shards.add(sums, 10);
    CHECK(sums.bytes.peak == 10);
    CHECK_FALSE(shards.try_add(1)); // it would be a new peak
    shards.sub(10);
    CHECK_FALSE(shards.try_add(11));
    CHECK(shards.try_add(4));
    CHECK_FALSE(shards.try_add(6)); // two blocks would be a new peak
    shards.refuse();
    shards.fold(sums, false);
    CHECK(sums.bytes.value == 4);
    CHECK(sums.bytes.total == 14);
    CHECK(sums.blocks.peak == 1);
    CHECK(sums.refusals == 1);
    shards.sub(4);
    worker{0,
           [&] {
               CHECK_FALSE(shards.try_add(3)); // the other thread has all room
               shards.add(sums, 3);
               CHECK(sums.bytes.peak == 10);
           }}
        .join();
}

/// Raises the value by 1, 2, ... and lowers it again, until `add` was called as often as a peak
/// stays exact. Returns the peak.
std::ptrdiff_t call_exactly(one_by_one& shards, counters& sums) {
    for (std::size_t n = 2; n <= one_by_one::exact_calls; ++n) {
        CHECK_FALSE(shards.try_add(n));
        shards.add(sums, n), shards.sub(n);
    }
    return sums.bytes.peak;
}

TEST_CASE("count_shards: one thread has exact peaks, however often it raises them") {
    one_by_one shards;
    counters   sums;
    shards.add(sums, 1), shards.sub(1);
    std::ptrdiff_t const peak = call_exactly(shards, sums);
    CHECK(peak == one_by_one::exact_calls);
    for (std::size_t n = one_by_one::exact_calls + 1; n != 1000; ++n) {
        CHECK_FALSE(shards.try_add(n));
        shards.add(sums, n), shards.sub(n);
    }
    shards.fold(sums, false);
    CHECK(sums.bytes == counter{0, 999, 1000 * 999 / 2});
}

TEST_CASE("count_shards: threads that often raise the peak count apart, and a new scope is exact") {
    using count_shards = one_by_one;
    count_shards shards;
    counters     sums;
    worker{0, [&] { shards.add(sums, 1); }}.join();
    shards.add(sums, 1), shards.sub(1);
    std::ptrdiff_t const peak = call_exactly(shards, sums);
    CHECK(peak == count_shards::exact_calls + 1);

    shards.add(sums, 300); // with an excess of room from here on
    CHECK_FALSE(shards.try_add(count_shards::least_bytes + 1));
    CHECK(shards.try_add(1000)); // a new peak, which is not seen
    shards.sub(1000);
    shards.fold(sums, true);
    CHECK(sums.bytes == counter{301, 301, 1 + 256 * 257 / 2 + 300 + 1000});

    shards.add(sums, 1);
    CHECK_FALSE(shards.try_add(1));
    shards.add(sums, 1);
    CHECK(sums.bytes.peak == 303);
}

TEST_CASE("count_shards: a thread that allocates gets the room of a thread that frees") {
    one_by_one shards;
    counters   sums;
    for (int i = 0; i != 64; ++i) { shards.add(sums, 10); }
    worker{0,
           [&] {
               for (int i = 0; i != 64; ++i) { shards.sub(10); }
           }}
        .join();
    unsigned calls = 0;
    for (int i = 0; i != 64; ++i) {
        if (!shards.try_add(10)) { shards.add(sums, 10), ++calls; }
    }
    CHECK(calls <= 7); // each call takes half
    CHECK(sums.bytes.peak == 640);
    shards.fold(sums, false);
    CHECK(sums.bytes == counter{640, 640, 1280});
}

} // namespace count_shards_test
