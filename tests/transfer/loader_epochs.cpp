// SPDX-License-Identifier: Apache-2.0
// Which batches an epoch of a loader has: short ones, missing ones, shards.
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include "feeding.hpp"

#include <vram/data/concat.hpp>
#include <vram/data/fields.hpp>
#include <vram/data/memory_chunks.hpp>
#include <vram/data/pinned_chunks.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace loader_epochs {
using indices = std::vector<std::size_t>;

/// A source that says how many batches it has: batch i has `bytes[i]` bytes, each of them i + 1.
struct samples {
    indices bytes;

    [[nodiscard]] std::size_t size() const { return bytes.size(); }
    [[nodiscard]] std::size_t fill(std::span<std::byte> to, std::size_t i) const {
        std::memset(to.data(), static_cast<int>(i + 1), bytes[i]);
        return bytes[i];
    }
};
/// One that also says the bytes of each batch.
struct measured_samples : samples {
    [[nodiscard]] std::size_t batch_bytes() const {
        return *std::max_element(bytes.begin(), bytes.end());
    }
    [[nodiscard]] std::size_t batch_bytes(std::size_t i) const { return bytes[i]; }
};
/// Either of them, as a source that enqueues.
template <class Samples>
struct enqueued : Samples {
    std::size_t enqueue(std::span<std::byte> to, std::size_t i, host_platform::stream) const {
        return Samples::fill(to, i);
    }
    std::size_t fill(std::span<std::byte>, std::size_t) const = delete;
};

template <class Loader>
indices drawn(Loader& load) {
    indices seen;
    for (auto& b : load) {
        seen.push_back(b.source_index());
        for (std::size_t i = 0; i < b.filled(); ++i) {
            REQUIRE(b.data()[i] == static_cast<std::byte>(b.source_index() + 1));
        }
    }
    return seen;
}
indices sorted(indices of) {
    std::sort(of.begin(), of.end());
    return of;
}
/// Runs `check` for every depth, one and several producers, and both orders.
template <class Check>
void everywhere(Check check) {
    for (std::size_t const depth : {0U, 1U, 2U, 3U}) {
        for (std::size_t const producers : {1U, 3U}) {
            for (bool const ordered : {true, false}) {
                CAPTURE(depth);
                CAPTURE(producers);
                CAPTURE(ordered);
                check(loader_options{
                    .batch_bytes = 64, .depth = depth, .producers = producers, .ordered = ordered});
            }
        }
    }
}
/// The error with which reading ends.
template <class Loader>
std::optional<loader_error> error_of(Loader& load) {
    try {
        for (auto& b : load) { (void)b; }
    } catch (loader_error const& e) { return e; }
    return {};
}
} // namespace loader_epochs
using namespace loader_epochs;

TEST_CASE("loader: a dropped short batch loses no other batch, at any position") {
    indices const bytes{64, 64, 9, 64, 1, 2, 3, 64, 64, 5};
    indices const full{0, 1, 3, 7, 8};
    everywhere([&](loader_options o) {
        o.last = last_batch::drop;
        for (bool const shuffle : {false, true}) {
            o.shuffle = shuffle;
            loader known{measured_samples{{bytes}}, host_platform::stream{}, o};
            loader unknown{samples{bytes}, host_platform::stream{}, o};
            loader direct{enqueued<samples>{{bytes}}, host_platform::stream{}, o};
            CHECK(known.batches() == 5);
            CHECK_FALSE(unknown.batches().has_value());
            for (int epoch = 0; epoch < 4; ++epoch) {
                for (auto const& seen : {drawn(known), drawn(unknown), drawn(direct)}) {
                    CHECK(sorted(seen) == full);
                    CHECK((shuffle || !o.ordered || seen == full));
                }
                CHECK(known.statistics().left_out == 0);
                CHECK(unknown.statistics().left_out == 5U * static_cast<unsigned>(epoch + 1));
                known.restart();
                unknown.restart();
                direct.restart();
            }
        }
    });
}

TEST_CASE("loader: a source without a size continues after a dropped short batch") {
    everywhere([&](loader_options o) {
        o.last          = last_batch::drop;
        auto const fill = [](std::span<std::byte>, std::size_t i) -> std::size_t {
            return i >= 9 ? 0 : i % 3 == 2 ? 5 : 64;
        };
        loader      load{fill, host_platform::stream{}, o};
        std::size_t seen = 0;
        for (auto& b : load) { seen += b.size() == 64; }
        CHECK(seen == 6);
    });
}

TEST_CASE("loader: of several files only the short batch at the end of each is dropped") {
    std::vector<std::byte> const first(1000), second(700);
    for (bool const shuffle : {false, true}) {
        std::vector<memory_chunks> parts;
        parts.emplace_back(std::span{first}, 300);
        parts.emplace_back(std::span{second}, 300);
        loader load{concat{std::move(parts)},
                    host_platform::stream{},
                    {.last = last_batch::drop, .shuffle = shuffle}};
        CHECK(load.batches() == 5);
        for (int epoch = 0; epoch < 5; ++epoch) {
            indices seen;
            for (auto& b : load) {
                CHECK(b.size() == 300);
                seen.push_back(b.source_index());
            }
            CHECK(sorted(seen) == indices{0, 1, 2, 4, 5});
            load.restart();
        }
    }
}

TEST_CASE("loader: a source with fewer batches than its size is an error at that batch") {
    everywhere([&](loader_options o) {
        for (last_batch const last : {last_batch::keep, last_batch::drop, last_batch::pad}) {
            o.last = last;
            loader gap{samples{{64, 64, 64, 0, 64, 64}}, host_platform::stream{}, o};
            loader direct{enqueued<samples>{{{64, 64, 64, 0, 64, 64}}}, host_platform::stream{}, o};
            for (auto const& e : {error_of(gap), error_of(direct)}) {
                REQUIRE(e.has_value());
                CHECK(e->why() == loader_error::reason::ends_early);
                CHECK(e->index() == 3);
                CHECK(e->source_index() == 3);
                CHECK(e->limit() == 6);
            }
            o.shuffle = true;
            loader     drawn{samples{{64, 64, 64, 0, 64, 64}}, host_platform::stream{}, o};
            auto const e = error_of(drawn);
            REQUIRE(e.has_value());
            CHECK(e->source_index() == 3);
            o.shuffle = false;
        }
    });
}

TEST_CASE("loader: a source that returns 0 because of a stop request is no error") {
    sim_node   node;
    sim_stream stream;
    struct stoppable {
        [[nodiscard]] std::size_t size() const { return 1000; }
        std::size_t fill(std::span<std::byte> to, std::size_t, std::stop_token const& stop) const {
            return stop.stop_requested() ? 0 : to.size();
        }
    };
    loader      load{stoppable{}, stream, {.batch_bytes = 64, .producers = 3}};
    std::size_t seen = 0;
    for (auto& b : load) {
        (void)b;
        if (++seen == 5) { load.stop(); }
    }
    CHECK(seen == 5);
}

TEST_CASE("loader: with drop, shards have equally many batches") {
    for (std::size_t const last : {64U, 10U}) {
        for (std::size_t const n : {1U, 2U, 9U, 10U, 11U, 12U}) {
            indices bytes(n, 64);
            bytes.back() = last;
            for (std::size_t const shards : {2U, 3U}) {
                for (bool const shuffle : {false, true}) {
                    CAPTURE(last);
                    CAPTURE(n);
                    CAPTURE(shards);
                    std::size_t const full = n - (last < 64);
                    indices           all;
                    for (std::size_t shard = 0; shard < shards; ++shard) {
                        loader_options const o{.batch_bytes = 64,
                                               .producers   = 2,
                                               .last        = last_batch::drop,
                                               .shuffle     = shuffle,
                                               .shard       = shard,
                                               .shards      = shards};
                        loader known{measured_samples{{bytes}}, host_platform::stream{}, o};
                        loader asked{samples{bytes}, host_platform::stream{}, o};
                        loader direct{enqueued<samples>{{bytes}}, host_platform::stream{}, o};
                        CHECK(known.batches() == full / shards);
                        CHECK(asked.batches() == full / shards);
                        for (auto const& seen : {drawn(known), drawn(asked), drawn(direct)}) {
                            CHECK(seen.size() == full / shards);
                            all.insert(all.end(), seen.begin(), seen.end());
                        }
                    }
                    std::sort(all.begin(), all.end());
                    all.erase(std::unique(all.begin(), all.end()), all.end());
                    CHECK(all.size() == full / shards * shards);
                    CHECK((all.empty() || all.back() < full));
                }
            }
        }
    }
}

TEST_CASE("loader: without drop the shards have all batches, and each has its number of batches") {
    for (last_batch const last : {last_batch::keep, last_batch::pad}) {
        std::size_t sum = 0;
        for (std::size_t const shard : {0U, 1U, 2U}) {
            loader load{samples{{64, 64, 64, 64, 10}},
                        host_platform::stream{},
                        {.batch_bytes = 64, .last = last, .shard = shard, .shards = 3}};
            CHECK(load.batches() == (shard < 2 ? 2 : 1));
            CHECK(drawn(load).size() == load.batches());
            sum += *load.batches();
        }
        CHECK(sum == 5);
    }
    auto const endless = [](std::span<std::byte> to, std::size_t) { return to.size(); };
    loader     load{endless, host_platform::stream{}, {.batch_bytes = 64}};
    CHECK_FALSE(load.batches().has_value());
}

TEST_CASE("loader: a short batch in the middle of shards is an error, and loses no batch") {
    everywhere([&](loader_options o) {
        o.last   = last_batch::drop;
        o.shards = 2;
        loader     load{samples{{64, 64, 9, 64, 64, 64}}, host_platform::stream{}, o};
        auto const e = error_of(load);
        REQUIRE(e.has_value());
        CHECK(e->why() == loader_error::reason::short_batch);
        CHECK(e->index() == 1);
        CHECK(e->source_index() == 2);
        CHECK(e->bytes() == 9);
        CHECK(e->limit() == 64);
    });
}

TEST_CASE("loader: if a source fails when shards query its last batch, the constructor throws") {
    struct broken : samples {
        [[nodiscard]] std::size_t fill(std::span<std::byte>, std::size_t) const { throw 7; }
    };
    sim_node   node;
    sim_stream stream;
    try {
        loader const load{
            broken{{{64, 64}}}, stream, {.batch_bytes = 64, .last = last_batch::drop, .shards = 2}};
        FAIL("the source failed");
    } catch (loader_error const& e) {
        CHECK(e.source_index() == 1);
        CHECK(feeding::cause_of<int>(e) == 7);
    }
    node.finish();
    CHECK(node.reports().empty());
}

namespace loader_epochs {
/// A source that enqueues, and may have other batches at each restart.
struct changing {
    std::shared_ptr<indices> bytes;

    [[nodiscard]] std::size_t size() const { return bytes->size(); }
    std::size_t enqueue(std::span<std::byte> to, std::size_t i, host_platform::stream s) const {
        return enqueued<samples>{{*bytes}}.enqueue(to, i, s);
    }
};
} // namespace loader_epochs

TEST_CASE("loader: a restart that queries the last batch changes no batch that the program holds") {
    for (std::size_t const depth : {0U, 2U, 3U}) {
        for (std::size_t const keep : {1U, 2U, 3U}) {
            CAPTURE(depth);
            CAPTURE(keep);
            changing const       source{std::make_shared<indices>(12, 64)};
            loader_options const o{
                .batch_bytes = 64, .depth = depth, .last = last_batch::drop, .shards = 2};
            loader load{source, host_platform::stream{}, o};
            std::vector<loader<changing, host_platform>::batch> kept;
            for (auto& b : load) {
                kept.push_back(std::move(b));
                if (kept.size() == std::min(keep, std::max<std::size_t>(depth, 1))) { break; }
            }
            load.stop();
            bool const all = kept.size() == std::max<std::size_t>(depth, 1);
            source.bytes->resize(9, 64);
            source.bytes->push_back(9); // 10 batches now, and the last one is short
            try {
                load.restart();
                CHECK_FALSE(all);
            } catch (loader_error const& e) {
                CHECK(all);
                CHECK(e.why() == loader_error::reason::all_held);
                CHECK(e.limit() == kept.size());
            }
            for (auto const& b : kept) {
                for (std::byte const x : b.span<std::byte>()) {
                    REQUIRE(x == static_cast<std::byte>(b.source_index() + 1));
                }
            }
            if (all) {
                kept.pop_back();
                load.restart();
            }
            CHECK(load.batches() == 4);
            kept.clear();
            CHECK(drawn(load) == indices{0, 2, 4, 6});
        }
    }
}

TEST_CASE("loader: a restart that failed does not change the order of the next pass") {
    struct failing : samples {
        bool*                     fails;
        void                      restart() const {}
        [[nodiscard]] std::size_t fill(std::span<std::byte> to, std::size_t i) const {
            if (*fails) { throw 7; }
            return samples::fill(to, i);
        }
        [[nodiscard]] std::size_t size() const { return bytes.size() + *fails; }
    };
    loader_options o{
        .batch_bytes = 64, .last = last_batch::drop, .shuffle = true, .seed = 3, .shards = 2};
    indices all;
    for (std::size_t shard = 0; shard < 2; ++shard) {
        bool fails = false;
        o.shard    = shard;
        loader load{failing{{indices(20, 64)}, &fails}, host_platform::stream{}, o};
        CHECK(drawn(load).size() == 10);
        if (shard == 1) {
            fails = true;
            CHECK_THROWS_AS(load.restart(), loader_error);
            fails = false;
        }
        load.restart();
        auto const seen = drawn(load);
        all.insert(all.end(), seen.begin(), seen.end());
    }
    indices each(20);
    std::iota(each.begin(), each.end(), std::size_t{0});
    CHECK(sorted(all) == each); // the two loaders still share the batches
}

TEST_CASE("loader: padding fills every field of a batch with several fields") {
    fields<float[16], int> const layout{4};
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index >= 5) { return 0; }
        std::size_t const n       = index == 2 || index == 4 ? 2 : 4;
        auto const [image, label] = layout.in(to, n);
        std::ranges::fill(image, 100.F);
        std::ranges::fill(label, 7);
        return layout.bytes(n);
    };
    everywhere([&](loader_options o) {
        for (bool const checker : {false, true}) {
            o.batch_bytes = layout.batch_bytes();
            o.last        = last_batch::pad;
            o.checker     = checker;
            for (auto& batch : loader{fill, host_platform::stream{}, o}) {
                auto const [image, label] = layout.of(batch);
                std::size_t const n       = layout.samples_in(batch.filled());
                CHECK(n == (batch.index() == 2 || batch.index() == 4 ? 2 : 4));
                REQUIRE(label.size() == 4);
                for (std::size_t s = 0; s < 4; ++s) {
                    CHECK(label[s] == (s < n ? 7 : 0));
                    CHECK(image[16 * s] == (s < n ? 100.F : 0.F));
                    CHECK(image[16 * s + 15] == (s < n ? 100.F : 0.F));
                }
            }
        }
    });
}

TEST_CASE("loader: an exception of batch_bytes(index) is one of the source, at its batch") {
    struct measured {
        [[nodiscard]] static std::size_t size() { return 4; }
        [[nodiscard]] static std::size_t batch_bytes() { return 8; }
        [[nodiscard]] static std::size_t batch_bytes(std::size_t index) {
            return index != 2 ? 8 : throw index;
        }
        static std::size_t fill(std::span<std::byte> to, std::size_t) { return to.size(); }
    };
    loader      load{measured{}, host_platform::stream{}, {.last = last_batch::pad}};
    std::size_t seen = 0;
    try {
        for (auto& batch : load) { seen += batch.size() / 8; }
        FAIL("the source has failed");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::source_failed);
        CHECK(e.index() == 2);
        CHECK_THROWS_AS(e.rethrow_cause(), std::size_t);
    }
    CHECK(seen == 2);
}

TEST_CASE("loader: sources of the platform give the bytes of each batch") {
    std::vector<std::byte> const data(1000);
    memory_chunks const          chunks{std::span{data}, 300, {.overlap = 100}};
    pinned_chunks const          pinned{std::span{data}, 300, {.overlap = 100}};
    std::vector<std::byte>       room(300);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        CHECK(chunks.batch_bytes(i) == chunks.fill(room, i));
        CHECK(pinned.batch_bytes(i) == chunks.batch_bytes(i));
    }
    static_assert(measured_source<memory_chunks> && measured_source<pinned_chunks> &&
                  measured_source<concat<memory_chunks>> && measured_source<concat<pinned_chunks>>);
}
