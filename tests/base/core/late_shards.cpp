// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/late_shards.hpp> // first: the header stands alone

#include <vram/base/core/process_fence.hpp>
#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace vram::detail;

namespace {

struct summing_shard {
    biased_lock lock;
    unsigned    sum = 0;
};

/// A sum of several threads.
template <class Lock>
struct late_sum {
    unsigned                         common = 0;
    late_shards<summing_shard, Lock> shards{};

    void add() {
        auto const use = [&] { ++common; };
        if (shards.alone(use)) { return; }
        if (summing_shard* const mine = shards.mine(use)) {
            auto const held = mine->lock.hold();
            ++mine->sum;
        }
    }
    unsigned apart() {
        auto const held = shards.hold();
        unsigned   sum  = 0;
        shards.hold_shards().for_each([&](summing_shard const& each) { sum += each.sum; });
        return sum;
    }
};

} // namespace

TEST_CASE("late_shards: one thread uses common data, and several use shards") {
    late_sum<biased_lock> s;
    s.add(), s.add();
    if (process_fence::available()) { // otherwise there is no bias, and a thread is never alone
        CHECK(s.common == 2);
        CHECK(s.shards.hold_shards().size() == 0);
    }
    auto const many = [&] {
        for (unsigned i = 0; i != 1000; ++i) { s.add(); }
    };
    { worker const a{0, many}, b{0, many}; }
    unsigned const common = s.common;
    s.add();
    CHECK(s.common == common);
    CHECK(s.common + s.apart() == 2003);

    unsigned visited = 0;
    s.shards.for_each([&](summing_shard& each) { visited += each.sum; });
    CHECK(visited == s.apart());

    auto moved = std::move(s.shards);
    CHECK(s.apart() == 0);
    s.shards = std::move(moved);
    CHECK(s.common + s.apart() == 2003);
}

TEST_CASE("late_shards: without a lock there are no shards") {
    late_sum<no_lock> s;
    s.add();
    CHECK(s.shards.mine([&] { ++s.common; }) == nullptr);
    s.shards.for_each([&](summing_shard&) { ++s.common; });
    CHECK(s.common == 2);
    CHECK(s.apart() == 0);
}
