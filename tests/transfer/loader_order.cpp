// SPDX-License-Identifier: Apache-2.0
// The order of a loader's batches, its end and its errors, with one producer and with several. (The
// numbers are those of the behaviours listed in docs/loading.md.)
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include "../laws/effort.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;
using feeding::numbered;

namespace loader_order {

template <class Loader>
std::vector<std::size_t> indices_of(Loader& load, sim_stream_view stream) {
    std::vector<std::size_t> seen;
    for (auto& b : load) {
        seen.push_back(b.index());
        feeding::use(stream, b);
    }
    return seen;
}
std::vector<std::size_t> up_to(std::size_t n) {
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) { all[i] = i; }
    return all;
}

/// Batch `i` takes a time of its own to fill; the checker sees the writing.
struct uneven {
    std::size_t batches;

    std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
        if (index >= batches) { return 0; }
        sim_node::current().work(sim_time{1000 * ((index * 7) % 5 + 1)});
        return numbered{batches}(to, index);
    }
};

} // namespace loader_order
using namespace loader_order;

// 10
TEST_CASE("loader: with several producers batches still arrive in order and complete") {
    for (std::size_t producers : {2U, 3U, 8U}) {
        for (std::size_t batches : {0U, 1U, 2U, 7U, 8U, 9U, 30U}) {
            sim_node    node;
            sim_stream  stream;
            std::size_t seen = 0, right = 0;
            {
                loader load{uneven{batches},
                            stream,
                            {.batch_bytes = numbered::bytes, .producers = producers}};
                for (auto& b : load) {
                    CHECK(b.index() == seen++);
                    sim_launch(stream, {.reads = {{b.data(), b.size()}}},
                               [numbers = b.span<std::size_t>(), at = b.index(), &right] {
                                   for (std::size_t x : sim_view(numbers)) { right += x == at; }
                               });
                }
                stream.synchronize();
            }
            CHECK(seen == batches);
            CHECK(right == batches * numbered::count);
            node.finish();
            CHECK(node.reports().empty());
        }
    }
}

// 10
TEST_CASE("loader: unordered batches arrive as they are filled, each once") {
    sim_node   node;
    sim_stream stream;
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        // Batch 13 may be requested before batch 12 is known to be the end.
        if (index >= 12) { return 0; }
        node.work(index % 4 == 0 ? 100us : 1us); // one in four is slow
        return to.size();
    };
    loader load{fill, stream, {.batch_bytes = 64, .producers = 4, .ordered = false}};
    auto   seen = indices_of(load, stream);
    CHECK(seen.size() == 12);
#if !defined VRAM_TESTS_TSAN
    CHECK(seen != up_to(12));
    CHECK(seen.front() != 0);
#endif
    std::sort(seen.begin(), seen.end());
    CHECK(seen == up_to(12));
}

// 10
TEST_CASE("loader: producers fill concurrently") {
#if !defined VRAM_TESTS_TSAN
    for (std::size_t producers : {1U, 2U, 4U}) {
        sim_node   node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
        sim_stream stream;
        auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
            if (index == 20) { return 0; }
            node.work(40us);
            return to.size();
        };
        loader load{fill, stream, {.batch_bytes = 1000, .producers = producers, .pinned_depth = 8}};
        sim_time const from = node.now();
        CHECK(indices_of(load, stream) == up_to(20));
        CHECK(node.now() - from == 20 / static_cast<int>(producers) * 40us);
        CHECK(load.statistics().fill_ns == 20 * 40'000);
        CHECK(load.statistics().producers == producers);
    }
#endif
}

// 14
TEST_CASE("loader: the range ends at the first missing batch, even if later ones exist") {
    for (std::size_t producers : {1U, 2U, 4U}) {
        sim_node   node;
        sim_stream stream;
        auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
            if (index == 5) {
                node.work(50us); // the others are far ahead by then
                return 0;
            }
            return to.size();
        };
        loader load{fill, stream, {.batch_bytes = 64, .producers = producers}};
        CHECK(indices_of(load, stream) == up_to(5));
        CHECK(load.statistics().batches == 5);
    }
}

// 11
TEST_CASE("loader: an error is thrown at its index, after all earlier batches") {
    for (std::size_t producers : {1U, 2U, 4U}) {
        for (bool ordered : {true, false}) {
            sim_node   node;
            sim_stream stream;
            auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
                if (index == 5 || index == 6) { throw index; }
                if (index < 5) { node.work(sim_time{10'000 * (5 - index)}); }
                return to.size();
            };
            loader load{
                fill, stream, {.batch_bytes = 64, .producers = producers, .ordered = ordered}};
            std::vector<std::size_t> seen;
            std::size_t              thrown = 0;
            auto                     at     = load.begin();
            try {
                for (; at != load.end(); ++at) { seen.push_back(at->index()); }
            } catch (loader_error const& e) {
                CHECK(e.why() == loader_error::reason::source_failed);
                CHECK(e.index() == 5);
                CHECK(e.source_index() == 5);
                thrown = feeding::cause_of<std::size_t>(e);
            }
            CHECK(thrown == 5);
            CHECK(at == load.end()); // and stays there
            std::sort(seen.begin(), seen.end());
            seen.erase(std::find_if(seen.begin(), seen.end(), [](auto i) { return i > 5; }),
                       seen.end()); // in no order, later ones may have been first
            CHECK(seen == up_to(5));
        }
    }
}

TEST_CASE("loader: a source without an index is called by one thread") {
    std::atomic<int> inside = 0, most = 0;
    std::size_t      made = 0;
    auto const       fill = [&](std::span<std::byte> to) -> std::size_t {
        most = std::max<int>(most, ++inside);
        --inside;
        return made++ < 20 ? to.size() : 0;
    };
    loader      load{fill, host_platform::stream{}, {.batch_bytes = 64, .producers = 8}};
    std::size_t seen = 0;
    for (auto& b : load) { CHECK(b.index() == seen++); }
    CHECK(seen == 20);
    CHECK(most == 1);
    CHECK(load.statistics().producers == 1);
}

// 15
TEST_CASE("loader: the last batch is kept short, dropped, or padded") {
    for (std::size_t depth : {0U, 1U, 2U, 3U}) {
        for (std::size_t producers : {1U, 3U}) {
            auto const fill = [](std::span<std::byte> to, std::size_t index) -> std::size_t {
                std::size_t const n = index < 4 ? 64 : index == 4 ? 10 : 0;
                for (std::size_t i = 0; i < n; ++i) { to[i] = std::byte{7}; }
                return n;
            };
            auto const sizes = [&](last_batch last) {
                std::vector<std::size_t> seen;
                loader                   load{fill,
                            host_platform::stream{},
                                              {.batch_bytes = 64,
                                               .depth       = depth,
                                               .producers   = producers,
                                               .last        = last,
                                               .pad_with    = std::byte{9}}};
                for (auto& b : load) {
                    seen.push_back(b.size());
                    for (std::size_t i = 0; i < b.size(); ++i) {
                        REQUIRE(b.data()[i] == std::byte(i < b.filled() ? 7 : 9));
                    }
                    CHECK(b.filled() == (b.index() < 4 ? 64 : 10));
                }
                load.restart(); // nothing was left behind
                std::size_t again = 0;
                for (auto& b : load) { again += b.index() == again; }
                CHECK(again == seen.size());
                return seen;
            };
            CHECK(sizes(last_batch::keep) == std::vector<std::size_t>{64, 64, 64, 64, 10});
            CHECK(sizes(last_batch::drop) == std::vector<std::size_t>{64, 64, 64, 64});
            CHECK(sizes(last_batch::pad) == std::vector<std::size_t>{64, 64, 64, 64, 64});
        }
    }
}

// 16
TEST_CASE("loader: it can restart after its end or a stop, and only then") {
    for (std::size_t depth : {0U, 1U, 2U}) {
        sim_node   node;
        sim_stream stream;
        loader     load{numbered{5}, stream, {.batch_bytes = numbered::bytes, .depth = depth}};
        for (int epoch = 0; epoch < 3; ++epoch) {
            std::size_t seen = 0;
            for (auto& b : load) {
                CHECK(b.index() == seen++);
                feeding::use(stream, b);
                if (b.index() == 2) {
                    try {
                        load.restart();
                        FAIL("it has not ended");
                    } catch (loader_error const& e) {
                        CHECK(e.why() == loader_error::reason::not_ended);
                    }
                    feeding::use(stream, b); // the loop still owns the batch
                    CHECK(b.size() == numbered::bytes);
                    break;
                }
            }
            load.stop();
            load.restart();
            seen = 0;
            for (auto& b : load) {
                CHECK(b.index() == seen++);
                feeding::use(stream, b);
            }
            CHECK(seen == 5);
            load.restart();
        }
        stream.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("loader: a batch that the loop keeps stays valid in the next epoch") {
    sim_node            node;
    sim_stream          stream;
    loader              load{numbered{4}, stream, {.batch_bytes = numbered::bytes, .depth = 2}};
    batch<sim_platform> kept;
    for (auto& b : load) {
        if (b.index() == 3) { kept = std::move(b); }
    }
    load.restart();
    std::size_t seen = 0;
    for (auto& b : load) {
        CHECK(b.data() != kept.data());
        feeding::use(stream, b);
        ++seen;
    }
    CHECK(seen == 4);
    feeding::use(stream, kept);
    kept.release();
    stream.synchronize();
    CHECK(node.reports().empty());
}

namespace loader_order {
/// The host with a copy that takes long, once, and says when it is over.
struct slow_once : host_platform {
    static inline std::atomic<bool> slow = false, begun = false, over = false;

    static void copy(stream, void* to, void const* from, std::size_t bytes) {
        bool const this_one = slow.exchange(false);
        if (this_one) {
            begun = true;
            std::this_thread::sleep_for(50ms);
        }
        std::memcpy(to, from, bytes);
        if (this_one) { over = true; }
    }
};

/// Begins the slow copy: a batch ends on a thread of its own, and another one is filled.
template <class Loader>
std::thread end_elsewhere(Loader& load) {
    auto last = std::move(*load.begin());
    while (load.states().filled == 0) { std::this_thread::yield(); }
    slow_once::begun = slow_once::over = false;
    slow_once::slow                    = true;
    std::thread ending{[b = std::move(last)]() mutable { b.release(); }};
    while (!slow_once::begun) { std::this_thread::yield(); }
    return ending;
}
} // namespace loader_order

// 8, 12
TEST_CASE("loader: a stop and the end wait for a copy that another thread is enqueuing") {
    auto const fill = [](std::span<std::byte> to, std::size_t index, std::stop_token stop) {
        while (index == 2 && !stop.stop_requested()) { std::this_thread::yield(); }
        return numbered{4}(to, index); // while it waits there, the batch that ends copies
    };
    loader_options const one{.batch_bytes = numbered::bytes, .depth = 1, .pinned_depth = 2};
    using loading = loader<decltype(fill), slow_once>;
    std::thread ending;
    {
        loading load{fill, {}, one};
        ending = end_elsewhere(load);
        load.stop();
        load.restart();
        CHECK(slow_once::over); // else it came into the next epoch
        ending.join();
        std::size_t seen = 0;
        for (auto& b : load) {
            CHECK(b.index() == seen++);
            CHECK(b.template span<std::size_t>()[0] == b.index());
            if (seen == 2) { break; }
        }
        CHECK(seen == 2);
    }
    {
        loading load{fill, {}, one};
        ending = end_elsewhere(load);
    }
    CHECK(slow_once::over);
    ending.join();
}

// 8, 16
TEST_CASE(
    "loader: batches of an epoch may be released on another thread while the next one begins") {
    loader load{numbered{8}, host_platform::stream{}, {.batch_bytes = numbered::bytes, .depth = 3}};
    std::size_t seen = 0;
    for (int epoch = 0; epoch < 100; ++epoch) {
        std::vector<batch<host_platform>> kept;
        for (auto& b : load) {
            ++seen;
            if (b.index() >= 6) { kept.push_back(std::move(b)); }
        }
        std::thread ending{[k = std::move(kept)]() mutable { k.clear(); }};
        load.restart();
        ending.join();
    }
    CHECK(seen == 800);
}

namespace loader_order {
/// A source with every optional member.
struct whole_source {
    std::size_t               batches;
    std::vector<std::size_t>* asked;

    std::size_t fill(std::span<std::byte> to, std::size_t index, std::stop_token) {
        asked->push_back(index);
        return to.size();
    }
    [[nodiscard]] std::size_t size() const { return batches; }
    [[nodiscard]] std::size_t batch_bytes() const { return 128; }
    void                      restart() { asked->clear(); }
};
} // namespace loader_order

TEST_CASE("loader: a source gives its size and its batches' bytes, and is not called beyond") {
    std::vector<std::size_t> asked;
    loader                   load{whole_source{6, &asked}, host_platform::stream{}};
    std::size_t              seen = 0;
    for (auto& b : load) {
        CHECK(b.size() == 128);
        ++seen;
    }
    CHECK(seen == 6);
    CHECK(asked == up_to(6));
    load.restart();
    for (auto& b : load) { CHECK(b.source_index() == b.index()); }
    CHECK(asked == up_to(6));
}

// 16
TEST_CASE("loader: each epoch has its own order, and a seed repeats them") {
    auto const epochs = [](std::uint64_t seed, std::size_t producers) {
        std::vector<std::size_t>              asked;
        std::vector<std::vector<std::size_t>> all;
        auto const fill = [](std::span<std::byte> to, std::size_t) { return to.size(); };
        struct sized : decltype(fill) {
            [[nodiscard]] std::size_t size() const { return 50; }
        };
        loader load{sized{fill},
                    host_platform::stream{},
                    {.batch_bytes = 64, .producers = producers, .shuffle = true, .seed = seed}};
        for (int e = 0; e < 3; ++e) {
            all.emplace_back();
            for (auto& b : load) {
                CHECK(b.index() == all.back().size());
                all.back().push_back(b.source_index());
            }
            auto sorted = all.back();
            std::sort(sorted.begin(), sorted.end());
            CHECK(sorted == up_to(50));
            load.restart();
        }
        CHECK(all[0] != all[1]);
        CHECK(all[1] != all[2]);
        return all;
    };
    auto const first = epochs(3, 1);
    CHECK(first == epochs(3, 1));
    CHECK(first == epochs(3, 4));
    CHECK(first != epochs(9, 1));
}

// 15
TEST_CASE("loader: a dropped short batch loses no other batch, also if shuffled") {
    auto const fill = [](std::span<std::byte> to, std::size_t i) { return i == 9 ? 3 : to.size(); };
    struct sized : decltype(fill) {
        [[nodiscard]] std::size_t size() const { return 10; }
    };
    loader load{sized{fill},
                host_platform::stream{},
                {.batch_bytes = 64, .last = last_batch::drop, .shuffle = true}};
    for (int epoch = 0; epoch < 5; ++epoch) {
        std::vector<std::size_t> asked;
        for (auto& b : load) { asked.push_back(b.source_index()); }
        std::sort(asked.begin(), asked.end());
        CHECK(asked == up_to(9));
        load.restart();
    }
}

// 28
TEST_CASE("loader: shards give every batch once in each epoch, shuffled or not") {
    for (bool const shuffle : {false, true}) {
        for (std::size_t const batches : {0U, 1U, 3U, 10U, 11U, 12U}) {
            auto const fill = [](std::span<std::byte> to, std::size_t) { return to.size(); };
            struct sized : decltype(fill) {
                std::size_t               batches;
                [[nodiscard]] std::size_t size() const { return batches; }
            };
            std::vector<std::vector<std::size_t>> epochs(2);
            for (std::size_t const shard : {0U, 1U, 2U}) {
                loader load{sized{fill, batches},
                            host_platform::stream{},
                            {.batch_bytes = 64,
                             .producers   = 2,
                             .shuffle     = shuffle,
                             .shard       = shard,
                             .shards      = 3}};
                for (auto& asked : epochs) {
                    std::size_t seen = 0;
                    for (auto& b : load) {
                        CHECK(b.index() == seen++);
                        CHECK((shuffle || b.source_index() == shard + 3 * b.index()));
                        asked.push_back(b.source_index());
                    }
                    CHECK(seen == (batches + 2 - shard) / 3);
                    load.restart();
                }
            }
            for (auto& asked : epochs) {
                std::sort(asked.begin(), asked.end());
                CHECK(asked == up_to(batches));
            }
        }
    }
}

// 28
TEST_CASE("loader: sources without a size can be sharded, unless they take no index") {
    std::vector<std::size_t> asked;
    auto const fill = [](std::span<std::byte> to, std::size_t i) { return i < 8 ? to.size() : 0; };
    loader     load{fill, host_platform::stream{}, {.batch_bytes = 64, .shard = 1, .shards = 3}};
    for (auto& b : load) { asked.push_back(b.source_index()); }
    CHECK(asked == std::vector<std::size_t>{1, 4, 7});
    auto const                          next = [](std::span<std::byte> to) { return to.size(); };
    std::vector<std::vector<int>> const range(3, std::vector<int>(4));
    CHECK_THROWS_AS((loader{next, host_platform::stream{}, {.shards = 2}}), loader_error);
    CHECK_THROWS_AS((loader{range, host_platform::stream{}, {.shards = 2}}), loader_error);
}

TEST_CASE("loader: a source without a size is not shuffled") {
    sim_node   node;
    sim_stream stream;
    try {
        loader const load{numbered{3}, stream, {.shuffle = true}};
        FAIL("nobody knows how many there are");
    } catch (loader_error const& e) { CHECK(e.why() == loader_error::reason::no_size); }
    CHECK(node.figures().allocations == 0);
}

// 18
TEST_CASE("loader: a batch that is late is an error with the states of all slots") {
#if !defined VRAM_TESTS_TSAN
    sim_node   node;
    sim_stream stream;
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == 3) { return 0; }
        node.work(index == 1 ? 10ms : 10us);
        return to.size();
    };
    loader      load{fill, stream, {.batch_bytes = 64, .timeout = 4ms}};
    std::size_t seen = 0, late = 0;
    auto        at = load.begin();
    for (bool more = true; more;) {
        try {
            more = at != load.end();
            if (more) {
                CHECK(at->index() == seen++);
                ++at;
            }
        } catch (loader_error const& e) {
            ++late;
            CHECK(e.why() == loader_error::reason::timed_out);
            CHECK(e.index() == 1);
            CHECK(e.states() == slot_states{.empty = 1, .filling = 1, .unused = 2});
        }
    }
    CHECK(seen == 3); // nothing was lost
    CHECK(late == 2);
#endif
}

// 18
TEST_CASE("loader: on the simulated device the timeout applies to a source that really blocks") {
#if !defined VRAM_TESTS_TSAN
    for (std::size_t const producers : {1U, 2U}) {
        sim_node          node;
        sim_stream        stream;
        std::atomic<bool> go   = false;
        auto const        fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
            while (index == 1 && !go) { std::this_thread::sleep_for(1ms); }
            node.work(1us);
            return index < 4 ? to.size() : 0;
        };
        loader load{
            fill, stream, {.batch_bytes = 64, .depth = 2, .producers = producers, .timeout = 50ms}};
        std::size_t seen = 0, late = 0;
        auto        at = load.begin();
        for (bool more = true; more;) {
            auto const since = std::chrono::steady_clock::now();
            try {
                more = at != load.end();
                if (more) {
                    CHECK(at->index() == seen++);
                    feeding::use(stream, *at);
                    ++at;
                }
            } catch (loader_error const& e) {
                CHECK(e.why() == loader_error::reason::timed_out);
                CHECK(e.index() <= 1); // the other producer may wait behind it
                CHECK(e.states().filling >= 1);
                CHECK(std::chrono::steady_clock::now() - since >= 50ms);
                stream.synchronize(); // the node works as before
                if (++late == 2) { go = true; }
            }
        }
        CHECK(late >= 2);
        CHECK(seen == 4); // nothing was lost
        stream.synchronize();
        CHECK(node.reports().empty());
    }
#endif
}

TEST_CASE("loader: a source that really blocks until a stop request ends with the loader") {
#if !defined VRAM_TESTS_TSAN
    sim_node   node;
    sim_stream stream;
    auto const fill = [](std::span<std::byte> to, std::size_t index,
                         std::stop_token const& stop) -> std::size_t {
        while (index == 1 && !stop.stop_requested()) { std::this_thread::sleep_for(1ms); }
        return to.size();
    };
    bool late = false;
    try {
        for (auto& b : loader{fill, stream, {.batch_bytes = 64, .timeout = 1ms}}) {
            feeding::use(stream, b);
        }
    } catch (loader_error const& e) { late = e.why() == loader_error::reason::timed_out; }
    CHECK(late);
    stream.synchronize();
    CHECK(node.reports().empty());
#endif
}

TEST_CASE("loader: on a real platform the timeout is real time") {
    std::atomic<bool> asked = false, go = false;
    auto const        fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        asked = true;
        while (!go) { std::this_thread::yield(); }
        return index < 2 ? to.size() : 0;
    };
    loader load{fill, host_platform::stream{}, {.batch_bytes = 64, .timeout = 2ms}};
    auto   at = load.begin();
    while (!asked) { std::this_thread::yield(); }
    try {
        (void)*at;
        FAIL("the source does not go on");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::timed_out);
        CHECK(e.states().filling == 1);
        CHECK(load.states().filling == 1);
    }
    go               = true;
    std::size_t seen = 0;
    for (bool more = true; more;) {
        try {
            more = at != load.end();
            if (more) {
                ++seen;
                ++at;
            }
        } catch (loader_error const&) {} // a slow machine
    }
    CHECK(seen == 2);
}

// 20
TEST_CASE("loader: an endless source ends by stop, also with several producers") {
    for (std::size_t producers : {1U, 4U}) {
        sim_node   node;
        sim_stream stream;
        loader     load{uneven{static_cast<std::size_t>(-1)},
                    stream,
                        {.batch_bytes = numbered::bytes, .producers = producers}};
        for (auto& b : load) {
            feeding::use(stream, b);
            if (b.index() == 20) { load.stop(); }
        }
        stream.synchronize();
        CHECK(node.reports().empty());
    }
}

namespace loader_order {
std::size_t three(std::span<std::byte> to, std::size_t index) { return index < 3 ? to.size() : 0; }
} // namespace loader_order

// 3
TEST_CASE("loader: a function is a source") {
    std::size_t seen = 0;
    for (auto& b : loader{loader_order::three, host_platform::stream{}, {.batch_bytes = 64}}) {
        CHECK(b.index() == seen++);
    }
    CHECK(seen == 3);
}

namespace loader_order {
/// Three batches, and the number of calls. It cannot be moved.
struct three_of_a_kind {
    three_of_a_kind()                  = default;
    three_of_a_kind(three_of_a_kind&&) = delete;

    [[nodiscard]] std::size_t size() const { return 3; }
    [[nodiscard]] std::size_t batch_bytes() const { return 64; }
    std::size_t               fill(std::span<std::byte> to, std::size_t) {
        ++asked;
        return to.size();
    }
    void restart() { ++begun; }

    int asked = 0, begun = 0;
};
} // namespace loader_order

// 3, 16
TEST_CASE("loader: std::ref of any source is a source") {
    auto const run = [](auto load) {
        for (int epoch = 0; epoch < 2; ++epoch) {
            if (epoch != 0) { load.restart(); }
            std::size_t seen = 0;
            for (auto& b : load) {
                CHECK(b.size() == 64);
                CHECK(b.index() == seen++);
            }
            CHECK(seen == 3);
        }
    };
    loader_order::three_of_a_kind   kept;
    std::vector<std::vector<float>> vectors(3, std::vector<float>(16));
    host_platform::stream const     stream;
    run(loader{std::ref(loader_order::three), stream, {.batch_bytes = 64}});
    run(loader{std::ref(vectors), stream});
    // It knows the number and the sizes of batches.
    run(loader{std::ref(kept), stream, {.shuffle = true}});
    CHECK(kept.asked == 6);
    CHECK(kept.begun == 1);
}
