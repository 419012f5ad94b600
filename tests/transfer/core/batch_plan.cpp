// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/batch_plan.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace planning {
/// A source of batches with these sizes, which it does or does not say in advance.
struct source_of_sizes {
    std::vector<std::size_t> sizes;

    [[nodiscard]] std::size_t size() const { return sizes.size(); }
    std::size_t fill(std::span<std::byte>, std::size_t index) const { return sizes[index]; }
};
struct measured : source_of_sizes {
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return sizes[index]; }
};
/// A source that decides which batches are short: those with an odd number of bytes.
struct deciding : measured {
    [[nodiscard]] bool is_short(std::size_t index) const { return sizes[index] % 2 != 0; }
};
struct endless {
    std::size_t operator()(std::span<std::byte>, std::size_t) const { return 8; }
};

/// Calls of a plan for the source's last batch.
template <class Source>
struct plan {
    batch_source<Source> source;
    loader_options       options;
    batch_plan<Source>   now{source, options};
    std::size_t          produced = 0;

    plan(Source from, loader_options o)
        : source{std::move(from)}, options{(o.batch_bytes = 8, o)} {}

    auto begin(std::uint64_t epoch = 0) {
        return now.begin(epoch, [&](std::size_t last) {
            ++produced;
            if constexpr (requires(batch_source<Source>& s) { s.fill({}, last, {}); }) {
                return static_cast<std::size_t>(source.fill({}, last, {}));
            } else {
                return last;
            }
        });
    }
    std::vector<std::size_t> order(std::uint64_t epoch = 0) {
        auto const               pass = begin(epoch);
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < pass.batches; ++i) { all.push_back(pass.order[i]); }
        return all;
    }
};
} // namespace planning
using planning::source_of_sizes;
using planning::deciding;
using planning::endless;
using planning::measured;
using planning::plan;
using order = std::vector<std::size_t>;

TEST_CASE("batch_plan: without options, all batches come in the source's order") {
    plan all{source_of_sizes{{8, 8, 3}}, {}};
    CHECK(all.order() == order{0, 1, 2});
    CHECK(all.now.batches() == 3);
    CHECK(all.produced == 0);
    using verdict = batch_plan<source_of_sizes>::verdict;
    CHECK(all.now.judge(8, false) == verdict::batch);
    CHECK(all.now.judge(3, false) == verdict::batch);
    CHECK(all.now.judge(0, true) == verdict::end);
    CHECK_THROWS_AS((void)all.now.judge(0, false), loader_error); // it ends before its size()
    CHECK_FALSE(all.now.pads(2));
    CHECK(all.now.padded(3) == 3);
}

TEST_CASE("batch_plan: a source without size() ends at any batch") {
    plan all{endless{}, {.last = last_batch::drop, .shard = 1, .shards = 3}};
    auto pass = all.begin();
    CHECK(pass.batches == all.now.unknown);
    CHECK(pass.order[2] == 7);
    CHECK_FALSE(all.now.batches().has_value());
    using verdict = batch_plan<endless>::verdict;
    CHECK(all.now.judge(0, false) == verdict::end);
    CHECK(all.now.judge(3, false) == verdict::left_out);
}

TEST_CASE("batch_plan: short batches of known sizes are left out in advance") {
    plan all{measured{{{8, 3, 8, 8, 5}}}, {.last = last_batch::drop}};
    CHECK(all.order() == order{0, 2, 3});
    CHECK(all.now.batches() == 3);
    CHECK_THROWS_AS((void)all.now.judge(3, false), loader_error); // it said 8
    plan padded{measured{{{8, 3}}}, {.last = last_batch::pad}};
    CHECK(padded.order() == order{0, 1});
    CHECK_FALSE(padded.now.pads(0));
    CHECK(padded.now.pads(1));
    CHECK(padded.now.padded(3) == 8);
}

TEST_CASE("batch_plan: a source with is_short() decides which batches are left out") {
    plan all{deciding{{{{6, 3, 8, 4, 7}}}}, {.last = last_batch::drop}};
    CHECK(all.order() == order{0, 2, 3});
    CHECK(all.now.batches() == 3);
    using verdict = batch_plan<deciding>::verdict;
    CHECK(all.now.judge(4, false) == verdict::batch);
    CHECK_THROWS_AS((void)all.now.judge(0, false), loader_error);
    plan shards{deciding{{{{6, 3, 8, 4, 7}}}}, {.last = last_batch::drop, .shard = 1, .shards = 2}};
    CHECK(shards.order() == order{2});
    plan padded{deciding{{{{4, 8}}}}, {.last = last_batch::pad}};
    CHECK(padded.now.pads(0)); // a complete batch with fewer bytes is padded as well
    CHECK(padded.order() == order{0, 1});
}

TEST_CASE("batch_plan: a short last batch of unknown size is produced once, if shards share it") {
    for (std::size_t const last : {3U, 8U}) {
        plan all{source_of_sizes{{8, 8, 8, last}},
                 {.last = last_batch::drop, .shard = 1, .shards = 2}};
        CHECK(all.order() == (last == 8 ? order{1, 3} : order{1}));
        CHECK(all.order(1).size() == (last == 8 ? 2 : 1));
        CHECK(all.produced == 1);
    }
    plan alone{source_of_sizes{{8, 8, 3}}, {.last = last_batch::drop}};
    CHECK(alone.order() == order{0, 1, 2});
    CHECK(alone.produced == 0);
    CHECK_FALSE(alone.now.batches().has_value()); // the last one may be left out
    CHECK(alone.now.judge(3, false) == batch_plan<source_of_sizes>::verdict::left_out);
    CHECK(alone.now.judge(8, false) == batch_plan<source_of_sizes>::verdict::batch);
    plan early{source_of_sizes{{8, 0}}, {.last = last_batch::drop, .shards = 2}};
    CHECK_THROWS_AS((void)early.begin(), loader_error);
}

TEST_CASE("batch_plan: shards get all batches once, and each epoch another order") {
    order seen;
    for (std::size_t shard : {0U, 1U, 2U}) {
        plan one{source_of_sizes{order(8, 8)}, {.shuffle = true, .shard = shard, .shards = 3}};
        auto first = one.order(0);
        CHECK(first.size() == (shard < 2 ? 3 : 2));
        CHECK(first == one.order(0));
        CHECK(first != one.order(1));
        CHECK_FALSE(std::ranges::is_sorted(one.order(2)));
        seen.insert(seen.end(), first.begin(), first.end());
    }
    std::ranges::sort(seen);
    CHECK(seen == order{0, 1, 2, 3, 4, 5, 6, 7});
}
