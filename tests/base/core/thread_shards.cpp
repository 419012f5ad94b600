// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/thread_shards.hpp> // first: the header stands alone

#include <vram/base/core/biased_lock.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace vram::detail;

namespace {

struct alignas(64) shard {
    std::atomic<unsigned> uses{0};
};

} // namespace

TEST_CASE("thread_shards: a thread uses one shard, and locks it before it is in the set") {
    thread_shards<shard> shards;
    CHECK(shards.used() == 0);
    unsigned   locked = 0;
    auto const lock   = [&](shard&) {
        CHECK(shards.used() == 0);
        ++locked;
        return 0;
    };
    shard& mine = shards.mine(lock);
    CHECK(&shards.mine(lock) == &mine);
    CHECK(locked == 1);
    shard* visited = nullptr;
    std::as_const(shards).for_each(shards.used(), [&](shard const& each) {
        CHECK(visited == nullptr);
        visited = const_cast<shard*>(&each);
    });
    CHECK(visited == &mine);
}

TEST_CASE("thread_shards: threads spread over the shards, and each keeps its own") {
    constexpr unsigned       threads = thread_shards<shard>::count + 8;
    thread_shards<shard>     shards;
    std::mutex               mutex;
    std::atomic<unsigned>    arrived{0};
    std::vector<std::thread> running;
    for (unsigned t = 0; t != threads; ++t) {
        running.emplace_back([&] {
            auto const lock = [&](shard&) { return std::unique_lock{mutex}; };
            shards.mine(lock).uses.fetch_add(1);
            ++arrived;
            while (arrived != threads) { std::this_thread::yield(); }
            shards.mine(lock).uses.fetch_add(1);
        });
    }
    for (auto& each : running) { each.join(); }
    CHECK(std::popcount(shards.used()) >
          16); // 32, unless other threads of the process have numbers
    unsigned sum = 0;
    shards.for_each(shards.used(), [&](shard& each) {
        CHECK(each.uses >= 2);
        CHECK(each.uses % 2 == 0);
        sum += each.uses;
    });
    CHECK(sum == 2 * threads);
}

namespace {

struct locked_shard {
    biased_lock lock;
    unsigned    uses = 0;
};

} // namespace

TEST_CASE("thread_shards: all shards in use can be locked at once") {
    using shards = thread_shards<locked_shard>;
    CHECK(shards::all_held{nullptr}.size() == 0);
    shards     all;
    auto const use = [&] {
        locked_shard& mine = all.mine([](locked_shard& first) { return first.lock.hold(); });
        for (unsigned i = 0; i != 1000; ++i) {
            auto const held = mine.lock.hold();
            ++mine.uses, ++mine.uses;
        }
    };
    use();
    std::thread other{use};
    bool        even = true;
    for (unsigned i = 0; i != 100; ++i) {
        shards::all_held const held{&all};
        held.for_each([&](locked_shard const& each) { even = even && each.uses % 2 == 0; });
    }
    CHECK(even);
    other.join();
    unsigned               sum = 0;
    shards::all_held const held{&all};
    CHECK(held.size() == 2);
    held.for_each([&](locked_shard const& each) { sum += each.uses; });
    CHECK(sum == 4000);
}
