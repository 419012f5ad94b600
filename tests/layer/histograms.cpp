// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/histograms.hpp> // first: the header stands alone

#include "../laws/resource.hpp"

#include <vram/base/core/worker.hpp>
#include <vram/layer/statistics.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

using namespace vram;

TEST_CASE("histograms: an entry has the values between two powers of two") {
    CHECK(histogram::entry_of(0) == 0);
    CHECK(histogram::entry_of(1) == 1);
    CHECK(histogram::entry_of(1023) == 10);
    CHECK(histogram::entry_of(1024) == 11);
    CHECK(histogram::entry_of(~std::uint64_t{0}) == 64);
    for (std::size_t i = 0; i != 65; ++i) { CHECK(histogram::entry_of(histogram::least(i)) == i); }
    histogram h;
    h.add(5);
    h.add(7);
    CHECK(h.counts[3] == 2);
    CHECK(h.total() == 2);
    histogram other;
    other.add(6);
    h.merge(other);
    CHECK(h.counts[3] == 3);
    CHECK_FALSE(h == histogram{});
}

TEST_CASE("histograms: the layer keeps the laws of a resource") {
    laws::resource([](auto up) { return std::move(up) | with::histograms; });
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::histograms(); });
}

TEST_CASE("histograms: sizes are counted at the allocation, lifetimes at the free") {
    auto        memory = doubles::archetype<>{} | with::histograms;
    void* const p      = memory.allocate_sync(100);
    void* const q      = memory.allocate_sync(3000);
    CHECK(memory.allocate_sync(0) == nullptr);
    CHECK(memory.histograms().sizes.total() == 2);
    CHECK(memory.histograms().sizes.counts[histogram::entry_of(100)] == 1);
    CHECK(memory.histograms().sizes.counts[histogram::entry_of(3000)] == 1);
    CHECK(memory.histograms().lifetimes.total() == 0);
    auto const begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{2}) {}
    memory.deallocate_sync(p, 100);
    histograms const seen = memory.histograms();
    CHECK(seen.lifetimes.total() == 1);
    std::uint64_t long_ones = 0;
    for (std::size_t i = histogram::entry_of(1'000'000); i != 65; ++i) {
        long_ones += seen.lifetimes.counts[i];
    }
    CHECK(long_ones == 1);
    memory.push();
    memory.deallocate_sync(q, 3000);
    memory.pop();
    CHECK(memory.histograms().lifetimes.total() == 2); // scopes do not matter
    CHECK(memory.now().blocks.value == 0);
}

TEST_CASE(
    "histograms: each size and lifetime is counted once, whichever thread allocates and frees") {
    auto               memory = doubles::archetype<>{} | with::histograms;
    constexpr int      each   = 100;
    std::vector<void*> blocks;
    auto const         allocate = [&] {
        for (int i = 0; i != each; ++i) { blocks.push_back(memory.allocate_sync(100)); }
    };
    auto const free_some = [&](std::size_t n) {
        for (; n != 0; --n) {
            memory.deallocate_sync(blocks.back(), 100);
            blocks.pop_back();
        }
    };
    allocate(); // by the only thread so far
    detail::worker{0,
                   [&] {
                       allocate();
                       detail::worker{0, allocate}.join();
                       free_some(2 * each); // of this thread and of the other
                       free_some(each / 2); // of the first thread
                   }}
        .join();
    free_some(each / 2);
    CHECK(blocks.empty());
    histograms const seen = memory.histograms();
    CHECK(seen.sizes.total() == 3 * each);
    CHECK(seen.sizes.counts[histogram::entry_of(100)] == 3 * each);
    CHECK(seen.lifetimes.total() == 3 * each);
    CHECK(memory.overall().blocks.total == 3 * each);

    auto const moved = std::move(memory);
    CHECK(moved.histograms().sizes == seen.sizes);
    CHECK(moved.histograms().lifetimes == seen.lifetimes);
}

TEST_CASE("histograms: threads that exchange blocks at the same time lose no count") {
    auto                      memory = doubles::archetype<>{} | with::histograms;
    std::atomic<void*>        passed[4]{};
    std::list<detail::worker> threads;
    constexpr unsigned        rounds = 3000;
    for (unsigned t = 0; t != 4; ++t) {
        threads.emplace_back(0, [&, t] {
            for (unsigned i = 0; i != rounds; ++i) {
                void* const own = memory.allocate_sync(64);
                void* const old = passed[(t + i) % 4].exchange(own);
                if (old != nullptr) { memory.deallocate_sync(old, 64); }
                if (i % 500 == 0) { (void)memory.histograms(); }
            }
        });
    }
    for (detail::worker& each : threads) { each.join(); }
    CHECK(memory.histograms().sizes.total() == 4 * rounds);
    CHECK(memory.histograms().lifetimes.total() == 4 * rounds - 4);
    for (auto& each : passed) { memory.deallocate_sync(each, 64); }
    CHECK(memory.histograms().lifetimes.total() == 4 * rounds);
}

TEST_CASE("histograms: a layer without them is as small as before") {
    struct counted_only {
        detail::biased_lock        lock;
        counters                   now;
        std::vector<std::uint64_t> scopes;
        std::uint64_t              last;
    };
    CHECK(sizeof(statistics<doubles::archetype<>>) <=
          sizeof(doubles::archetype<>) + sizeof(counted_only) + 8);
}
