// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/arena.hpp> // first: the header stands alone

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/core/stream_affinity.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/interrupted_platform.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/shy_platform.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/graphs_keep.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/resource.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <string_view>
#include <utility>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::arena<doubles::archetype<>>;
template class vram::arena<doubles::minimal_resource<>>;
template class vram::arena<sim_resource>;
template class vram::arena<pool<stream_ordered<sim_resource>>, exact_growth>;
template class vram::arena<sim_async_resource, device_share_growth>;

namespace {

/// Shards that allocate exactly the needed size, so that the tests can count.
template <class Upstream>
arena<Upstream, exact_growth> lean(Upstream upstream, arena_options options = {}) {
    return arena<Upstream, exact_growth>{std::move(upstream), options};
}
constexpr arena_options by_stream{.count = 8, .key = arena_key::stream};

/// Streams are numbers. Before a thread acquires a lock, a function of the test runs in place of
/// another thread.
struct interruptible_platform : host_platform {
    struct stream {
        using platform       = interruptible_platform;
        std::uint64_t number = 0;

        operator host_platform::stream() const noexcept { return {}; }
        friend bool operator==(stream, stream) = default;
    };
    struct lock : biased_lock {
        [[nodiscard]] guard hold() const noexcept {
            if (locks_until-- == 1) { interrupt(); }
            return biased_lock::hold();
        }
    };
    [[nodiscard]] static std::uint64_t id(stream s) noexcept { return s.number; }

    static inline int                   locks_until = 0;
    static inline std::function<void()> interrupt;
};

/// Runs `body` on a thread of its own, to the end.
template <class Body>
void elsewhere(Body body) {
    sim_thread{sim_platform::current_device(), std::move(body)}.join();
}

} // namespace

TEST_CASE("arena: it keeps the laws of a resource") {
    laws::resource([](auto up) { return arena{std::move(up)}; });
    laws::resource([](auto up) { return lean(std::move(up), {.count = 1}); });
    laws::resource([](auto up) { return arena{std::move(up), by_stream}; });
    laws::resource([](auto up) { return arena{std::move(up), {.events = event_policy::eager}}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::arena; });
    laws::resource([](auto up) {
        return std::move(up) | with::stream_ordered | with::pool() | with::arena(by_stream);
    });
}

TEST_CASE("arena: it keeps the laws for many concurrent threads") {
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::arena; });
    laws::resource_of_many_threads([](auto up) { return lean(std::move(up), {.count = 2}); });
    laws::resource_of_many_threads([](auto up) { return lean(std::move(up), by_stream); });
    laws::resource_of_many_threads(
        [](auto up) { return lean(std::move(up), {.trim_above = 20_KiB}); });
    // So little memory that a thread may need blocks of another shard.
    laws::resource_of_many_threads(
        [](auto up) { return lean(std::move(up), {.max_size = 32_KiB}); },
        {.operations = 1000, .may_refuse = true});
}

TEST_CASE("arena: it keeps the laws on a device, and every order between streams") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
            sim_node            node{{.on_report = sim_on_report::collect}};
            arena_options const options{.count = 4, .key = key, .events = events};
            laws::resource<sim_resource>([&](auto up) { return arena{std::move(up), options}; },
                                         {.room = 4_MiB, .largest_alignment = 2_MiB});
            laws::resource<sim_resource>([&](auto up) { return lean(std::move(up), options); },
                                         {.operations = 3000, .streams = 8, .seed = 2});
            laws::resource<sim_async_resource>(
                [&](auto up) { return lean(std::move(up), options); }, {.streams = 5, .seed = 3});
            laws::resource<sim_resource>(
                [&](auto up) {
                    return std::move(up) | with::stream_ordered | with::pool() |
                           with::arena(options);
                },
                {.seed = 4});
            laws::resource_of_many_threads<sim_resource>(
                [&](auto up) { return lean(std::move(up), options); }, {.operations = 300});
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("arena: no failure loses memory") {
    auto const live = [](auto& mr) { return mr.usage().live; };
    laws::survives_every_failure([](auto up) { return arena{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 live);
    laws::survives_every_failure(
        [](auto up) { return lean(std::move(up), {.key = arena_key::stream}); },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 9990}; }, live);
}

TEST_CASE(
    "arena: if there are as many streams as shards each stream has one, and a thread has its own") {
    for (int round = 0; round < 20; ++round) {
        sim_node   node;
        sim_stream streams[8];
        arena      mr{sim_resource{}, by_stream, fixed_growth{.step = 1_MiB}};
        void*      blocks[8];
        for (int i = 0; i < 8; ++i) {
            blocks[i] = mr.allocate(streams[i], 1000);
            CHECK(mr.usage().reserved == static_cast<std::size_t>(i + 1) * 1_MiB);
        }
        for (int i = 0; i < 8; ++i) {
            laws::block const more{mr, 1}; // the default stream shares a shard with another stream
            void* const       again = mr.allocate(streams[i], 1000);
            mr.deallocate(streams[i], again, 1000);
        }
        CHECK(mr.usage().reserved == 8_MiB);
        for (int i = 0; i < 8; ++i) { mr.deallocate(streams[i], blocks[i], 1000); }
    }
    sim_node    node;
    sim_stream  a, b;
    arena       mr{sim_resource{}, {.count = 8}, fixed_growth{.step = 1_MiB}};
    void* const p = mr.allocate(a, 1000);
    void* const q = mr.allocate(b, 1000);
    CHECK(mr.usage().reserved == 1_MiB);
    void* r = nullptr;
    elsewhere([&] { r = mr.allocate(b, 1000); });
    CHECK(mr.usage().reserved == 2_MiB);
    mr.deallocate(a, p, 1000);
    mr.deallocate(b, q, 1000);
    mr.deallocate(b, r, 1000);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("arena: sizes and counts are rounded, and the defaults fit the machine") {
    CHECK(arena{host_resource{}, {.count = 5}}.options().count == 8);
    CHECK(arena{host_resource{}, {.count = 64}}.options().count == 64);
    unsigned const usual = arena{host_resource{}}.options().count;
    CHECK((usual >= 2 && usual <= 64));
    CHECK((usual & (usual - 1)) == 0);
}

TEST_CASE("arena: a stream's own memory is reused at once, without event, wait or host memory") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node    node{{.checks = {.races = false, .bounds = false}}}; // they need host memory
        sim_stream  s;
        arena       mr{sim_resource{}, {.key = key}};
        void* const first = mr.allocate(s, 1_MiB);
        doubles::busy(s, first, 1_MiB);
        mr.deallocate(s, first, 1_MiB);
        auto const allocations = doubles::host_allocations();
        auto const calls       = mr.usage().upstream;
        for (int i = 0; i < 100; ++i) {
            void* const p = mr.allocate(s, 1_MiB);
            mr.deallocate(s, p, 1_MiB);
        }
        CHECK(doubles::host_allocations() == allocations);
        CHECK(mr.usage().upstream == calls);
        CHECK(mr.usage().events == 0);
        CHECK(mr.usage().waits == 0);
    }
}

TEST_CASE(
    "arena: a block is freed to its shard from any thread and stream, and the next user waits") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        sim_stream             a, b;
        auto                   mr = lean(sim_resource{}, {.count = 8, .key = key});
        void* const            p  = mr.allocate(a, 1_MiB);
        a.synchronize();
        auto const before = node.now();
        elsewhere([&] {
            doubles::busy(b, p, 1_MiB, 5ms);
            mr.deallocate(b, p, 1_MiB);
        });
        CHECK(node.now() - before < 1ms); // no stream was waited for
        CHECK(mr.usage().events == 0);
        CHECK(mr.usage().live == 0);
        void* const q = mr.allocate(a, 1_MiB);
        CHECK(q == p);
        CHECK(mr.usage().waits == 1);
        doubles::busy(a, q, 1_MiB);
        mr.deallocate(a, q, 1_MiB);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE(
    "arena: a thread that only allocates and one that only frees need the peak of live memory") {
    SUBCASE("on streams of a device") {
        sim_node                             node{{.on_report = sim_on_report::collect}};
        sim_stream                           a, b;
        auto                                 mr = lean(sim_resource{}, by_stream);
        std::deque<void*>                    out;
        laws::stream_set<sim_platform> const order{0};
        for (int i = 0; i < 2000; ++i) {
            void* const p = mr.allocate(a, 1_MiB);
            doubles::busy(a, p, 1_MiB, 10us);
            out.push_back(p);
            if (out.size() <= 8) { continue; }
            order.order(a, b);
            doubles::busy(b, out.front(), 1_MiB, 10us);
            mr.deallocate(b, out.front(), 1_MiB);
            out.pop_front();
        }
        CHECK(mr.usage().reserved <= 10_MiB);
        for (void* const p : out) { mr.deallocate(a, p, 1_MiB); }
        CHECK(node.reports().empty());
    }
    SUBCASE("on threads") {
        auto              mr = lean(doubles::archetype<>{});
        gate              hand;
        std::deque<void*> out;
        {
            worker const consumer{0, [&] {
                                      for (int i = 0; i < 20'000; ++i) {
                                          auto held = hand.hold();
                                          hand.wait(held, [&] { return !out.empty(); });
                                          void* const p = out.front();
                                          out.pop_front();
                                          held.unlock();
                                          hand.notify();
                                          mr.deallocate({}, p, 4_KiB);
                                      }
                                  }};
            for (int i = 0; i < 20'000; ++i) {
                void* const p    = mr.allocate({}, 4_KiB);
                auto        held = hand.hold();
                hand.wait(held, [&] { return out.size() < 8; });
                out.push_back(p);
                held.unlock();
                hand.notify();
            }
        }
        CHECK(mr.usage().live == 0);
        CHECK(mr.usage().reserved <= 10 * 4_KiB);
    }
}

TEST_CASE("arena: before a refusal idle memory of other shards is returned") {
    for (bool const own_limit : {false, true}) {
        sim_node node{
            {.capacity = own_limit ? 64_MiB : 8_MiB, .on_report = sim_on_report::collect}};
        arena_options const options{
            .max_size = own_limit ? 8_MiB : unsatisfiable, .count = 8, .key = arena_key::stream};
        sim_stream  a, b;
        auto        mr = lean(sim_resource{}, options);
        void* const p  = mr.allocate(a, 8_MiB);
        doubles::busy(a, p, 8_MiB);
        mr.deallocate(a, p, 8_MiB);
        void* const q = mr.allocate(b, 6_MiB);
        doubles::busy(b, q, 6_MiB);
        mr.deallocate(b, q, 6_MiB);
        void* const r = mr.try_allocate(a, 7_MiB);
        CHECK(r != nullptr);
        doubles::busy(a, r, 7_MiB);
        mr.deallocate(a, r, 7_MiB);
        CHECK(mr.usage().reserved == 7_MiB);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("arena: if other shards have no idle chunks, they are asked for a block") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    arena       small{sim_resource{},
                      {.max_size = 8_MiB, .count = 8, .key = arena_key::stream},
                fixed_growth{.step = 8_MiB}};
    void* const p = small.allocate(a, 1_MiB); // all there may be is its chunk now
    void* const q = small.allocate(b, 1_MiB);
    void* const r = small.try_allocate(b, 1_MiB);
    CHECK(r != nullptr);
    void* const t = small.allocate_sync(5_MiB);
    CHECK(small.usage().live == 8_MiB);
    CHECK(small.usage().reserved == 8_MiB);
    CHECK(small.try_allocate(b, 1) == nullptr);
    small.deallocate(a, p, 1_MiB);
    small.deallocate(b, q, 1_MiB);
    small.deallocate(b, r, 1_MiB);
    small.deallocate_sync(t, 5_MiB);
    CHECK(small.usage().live == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("arena: a refusal has the totals of all shards") {
    sim_node    node{{.capacity = 8_MiB}};
    sim_stream  a, b;
    auto        mr = lean(sim_resource{}, by_stream);
    void* const p  = mr.allocate(a, 3_MiB);
    void* const q  = mr.allocate(b, 2_MiB);
    try {
        (void)mr.allocate(b, 5_MiB + 1, 512);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 5_MiB + 1);
        CHECK(e.numbers().rounded == 5_MiB + 256);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().stream == b.id());
        CHECK(e.numbers().live == 5_MiB);
        CHECK(e.numbers().reserved == 5_MiB);
        CHECK(e.numbers().device_free == 3_MiB);
        CHECK(e.numbers().device_total == 8_MiB);
    }
    CHECK(mr.try_allocate(b, 6_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(6_MiB) == nullptr);
    CHECK(mr.usage().live == 5_MiB);
    mr.deallocate(a, p, 3_MiB);
    mr.deallocate(b, q, 2_MiB);

    auto        own = lean(host_resource{}, {.max_size = 1_MiB});
    void* const r   = own.allocate_sync(1_MiB);
    try {
        (void)own.allocate_sync(1);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().limit == 1_MiB);
        CHECK(e.numbers().live == 1_MiB);
    }
    own.deallocate_sync(r, 1_MiB);

    arena       under{limiting{host_resource{}, 1_MiB}};
    void* const t = under.allocate_sync(1000);
    CHECK_THROWS_AS((void)under.allocate_sync(2_MiB), over_limit);
    under.deallocate_sync(t, 1000);
}

TEST_CASE(
    "arena: idle chunks move to other shards before there are many, without a wait for a stream") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream streams[8];
    auto mr = lean(sim_resource{}, {.count = 8, .key = arena_key::stream, .trim_above = 8_MiB});
    for (auto const& s : streams) { // each stream in turn has six blocks live, and frees them
        void* blocks[6];
        for (auto& p : blocks) {
            p = mr.allocate(s, 1_MiB);
            doubles::busy(s, p, 1_MiB, 1us);
        }
        for (auto* const p : blocks) { mr.deallocate(s, p, 1_MiB); }
        s.synchronize();
    }
    CHECK(mr.usage().peak_reserved <= 9_MiB); // and not 48
    mr.trim();

    void* blocks[8];
    for (auto& p : blocks) { p = mr.allocate(streams[0], 1_MiB); }
    for (auto* const p : blocks) { doubles::busy(streams[0], p, 1_MiB, 10ms); }
    for (auto* const p : blocks) { mr.deallocate(streams[0], p, 1_MiB); }
    auto const  before = node.now();
    void* const p      = mr.allocate(streams[1], 1_MiB);
    CHECK(mr.usage().reserved == 9_MiB); // still in use
    CHECK(node.now() - before < 1ms);
    streams[0].synchronize();
    void* const q = mr.allocate(streams[1], 3_MiB);
    CHECK(mr.usage().reserved == 4_MiB);
    mr.deallocate(streams[1], p, 1_MiB);
    mr.deallocate(streams[1], q, 3_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("arena: a captured stream uses no other shard, and the next request cleans up") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    auto mr = lean(sim_resource{}, {.count = 8, .key = arena_key::stream, .trim_above = 2_MiB});
    void* const idle = mr.allocate(other, 2_MiB);
    doubles::busy(other, idle, 2_MiB, 1us);
    mr.deallocate(other, idle, 2_MiB);
    other.synchronize();
    sim_graph::begin(s);
    auto const  before = node.figures();
    void* const p      = mr.allocate(s, 1_MiB);
    CHECK(mr.usage().reserved == 3_MiB);
    CHECK(node.figures().events_recorded == before.events_recorded);
    CHECK(node.figures().queries == before.queries);
    (void)sim_graph::end(s);
    void* const q = mr.allocate(s, 1_MiB);
    CHECK(mr.usage().reserved == 2_MiB);
    mr.deallocate(s, p, 1_MiB);
    mr.deallocate(s, q, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("arena: trim returns all idle memory beyond the bytes to keep") {
    sim_node   node;
    sim_stream streams[4];
    auto       mr = lean(sim_resource{}, by_stream);
    void*      blocks[8];
    for (int i = 0; i < 8; ++i) { blocks[i] = mr.allocate(streams[i % 4], 1_MiB); }
    for (int i = 1; i < 8; ++i) {
        doubles::busy(streams[i % 4], blocks[i], 1_MiB);
        mr.deallocate(streams[i % 4], blocks[i], 1_MiB);
    }
    CHECK(mr.trim(unsatisfiable) == 0);
    CHECK(mr.trim(3_MiB) == 4_MiB);
    CHECK(mr.usage().reserved == 4_MiB);
    CHECK(mr.trim() == 3_MiB);
    CHECK(mr.trim() == 0);
    CHECK(node.figures().used == 1_MiB);
    mr.deallocate(streams[0], blocks[0], 1_MiB);

    arena<pool<host_resource>> over;
    void* const                p = over.allocate_sync(1_MiB);
    over.deallocate_sync(p, 1_MiB);
    std::size_t const held = over.upstream().usage().reserved;
    CHECK(over.trim() == held);
    CHECK(over.upstream().usage().reserved == 0);
}

TEST_CASE("arena: usage is the sum of all shards") {
    sim_node    node;
    sim_stream  a, b;
    auto        mr = lean(sim_resource{}, by_stream);
    void* const p  = mr.allocate(a, 1_MiB - 1);
    mr.deallocate(a, p, 1_MiB - 1);
    void* const        q   = mr.allocate(b, 2_MiB);
    memory_usage const now = mr.usage();
    CHECK(now.live == 2_MiB);
    CHECK(now.requested == 2_MiB);
    CHECK(now.reserved == 3_MiB);
    CHECK(now.peak_reserved == 3_MiB);
    CHECK(now.peak_live == 3_MiB); // an upper bound: they were not live at the same time
    CHECK(now.largest_free == 1_MiB);
    CHECK(now.pending == 1_MiB);
    CHECK(now.allocations == 2);
    CHECK(now.upstream == 2);
    mr.deallocate(b, q, 2_MiB);

    auto        other = lean(sim_resource{}, by_stream);
    void* const r     = other.allocate(a, 2_MiB);
    other.deallocate(a, r, 2_MiB);
    other.trim();
    void* const t = other.allocate(b, 2_MiB);
    CHECK(other.usage().peak_live == 2_MiB); // never more than the peak of reserved bytes
    other.deallocate(b, t, 2_MiB);
}

TEST_CASE("arena: free_memory is the sum of all shards, and gives fragmentation") {
    sim_node   node;
    sim_stream a, b;
    auto       mr = lean(sim_resource{}, by_stream);
    CHECK(mr.free_memory() == free_pieces{});
    void* const whole = mr.allocate(a, 8_MiB);
    void* const idle  = mr.allocate(b, 2_MiB);
    mr.deallocate(a, whole, 8_MiB);
    void* const part = mr.allocate(a, 5_MiB - 1); // the rest of its chunk is unused
    mr.deallocate(b, idle, 2_MiB);
    free_pieces const f = mr.free_memory();
    CHECK(f.bytes == 5_MiB);
    CHECK(f.count == 2);
    CHECK(f.largest == 3_MiB);
    CHECK(f.releasable == 2_MiB);
    CHECK(f.by_size[21] == 2);
    fragmentation const all{mr.usage(), f};
    CHECK(all.unused == 0);
    CHECK(all.scattered == doctest::Approx(0.4));
    CHECK(all.holes == doctest::Approx(0.13));
    CHECK(all.stranded == 3_MiB);
    CHECK(all.rounding == 1);
    CHECK(mr.trim() == f.releasable);
    mr.deallocate(a, part, 5_MiB - 1);
    CHECK(mr.free_memory().releasable == 8_MiB);
}

TEST_CASE("arena: reset_peaks applies to every shard, and a peak_scope has its own peaks") {
    sim_node    node;
    sim_stream  a, b;
    auto        mr = lean(sim_resource{}, by_stream);
    void* const p  = mr.allocate(a, 4_MiB);
    void* const q  = mr.allocate(b, 2_MiB);
    mr.deallocate(a, p, 4_MiB);
    mr.deallocate(b, q, 2_MiB);
    mr.trim();
    void* const stays = mr.allocate(a, 1_MiB);
    {
        peak_scope outer{mr};
        CHECK(outer.live() == 1_MiB);
        CHECK(outer.reserved() == 1_MiB);
        {
            peak_scope inner{mr};
            mr.deallocate(b, mr.allocate(b, 3_MiB), 3_MiB);
            CHECK(inner.live() == 4_MiB);
            CHECK(inner.reserved() == 4_MiB);
        }
        CHECK(outer.live() == 4_MiB);
        {
            peak_scope inner{mr};
            CHECK(inner.live() == 1_MiB);
            CHECK(inner.reserved() == 4_MiB);
        }
        CHECK(outer.live() == 4_MiB);
    }
    CHECK(mr.usage().peak_live == 6_MiB);
    CHECK(mr.usage().peak_reserved == 6_MiB);
    memory_usage const before = mr.reset_peaks();
    CHECK(before.peak_live == 6_MiB);
    CHECK(before.peak_reserved == 6_MiB);
    CHECK(mr.reset_peaks().peak_live == 1_MiB); // without memory freed in an earlier scope
    mr.raise_peaks(before);
    mr.raise_peaks({.peak_live = 2_MiB, .peak_reserved = 2_MiB}); // lower values change nothing
    CHECK(mr.usage().peak_live == 6_MiB);
    mr.deallocate(a, stays, 1_MiB);
}

TEST_CASE(
    "arena: the peak of live bytes is at least the true one, and at most the reserved bytes") {
    sim_node   node;
    sim_stream a, b;
    auto       mr = lean(sim_resource{}, by_stream);
    // One after the other: 4 MiB live, and 4 reserved.
    for (auto const& s : {a.view(), b.view(), a.view()}) {
        mr.deallocate(s, mr.allocate(s, 4_MiB), 4_MiB);
        mr.trim();
    }
    CHECK(mr.usage().peak_live == 4_MiB);
    CHECK(mr.reset_peaks().peak_live == 4_MiB); // not the sum of both shards
    CHECK(mr.usage().peak_live == 0);
}

TEST_CASE("arena: a move takes the peaks along") {
    using movable = doubles::archetype<sim_platform>;
    sim_node    node;
    sim_stream  s;
    auto        a = lean(movable{}, by_stream);
    void* const p = a.allocate(s, 4_MiB);
    a.raise_peaks(a.reset_peaks());
    a.deallocate(s, p, 4_MiB);
    auto b = std::move(a);
    CHECK(b.usage().peak_live == 4_MiB);
    CHECK(b.free_memory().releasable == 4_MiB);
    CHECK(a.usage() == memory_usage{});
    CHECK(a.free_memory() == free_pieces{});
    CHECK(a.reset_peaks() == memory_usage{});
    a = std::move(b);
    CHECK(a.usage().peak_live == 4_MiB);
    CHECK(b.usage() == memory_usage{});
    CHECK(a.reset_peaks().peak_reserved == 4_MiB);
    CHECK(a.usage().peak_live == 0);
}

TEST_CASE("arena: allocations during reset_peaks count in the peaks before or after it") {
    using platform = interruptible_platform;
    for (int lock = 1; lock <= 9; ++lock) { // each lock of two shards, and some calls without one
        CAPTURE(lock);
        auto                   mr = lean(doubles::archetype<platform>{}, by_stream);
        platform::stream const a{1}, b{2};
        void*                  first  = mr.allocate(a, 4_KiB);
        void*                  second = mr.allocate(b, 4_KiB);
        for (bool const other : {false, true}) { // one block is live; for a moment both are
            mr.deallocate(other ? a : b, other ? first : second, 4_KiB);
            mr.reset_peaks();
            platform::interrupt = [&] {
                void* const p = mr.allocate(other ? a : b, 4_KiB);
                mr.deallocate(other ? a : b, p, 4_KiB);
                mr.deallocate(other ? b : a, other ? second : first, 4_KiB);
            };
            platform::locks_until     = lock;
            memory_usage const before = mr.reset_peaks();
            if (std::exchange(platform::locks_until, 0) > 0) { platform::interrupt(); }
            mr.raise_peaks(before);
            CHECK(mr.usage().peak_live == 8_KiB);
            CHECK(mr.usage().live == 0);
            first  = mr.allocate(a, 4_KiB);
            second = mr.allocate(b, 4_KiB);
        }
        mr.deallocate(a, first, 4_KiB);
        mr.deallocate(b, second, 4_KiB);
    }
}

TEST_CASE("arena: a probe that reads during reset_peaks gets no value that is too small") {
    using platform = interruptible_platform;
    for (int lock = 1; lock <= 8; ++lock) {
        CAPTURE(lock);
        auto                   mr = lean(doubles::archetype<platform>{}, by_stream);
        platform::stream const a{1}, b{2};
        memory_delta const     probe{mr};
        void* const            first  = mr.allocate(a, 4_KiB);
        void* const            second = mr.allocate(b, 4_KiB);
        mr.deallocate(a, first, 4_KiB);
        mr.deallocate(b, second, 4_KiB);
        std::size_t seen      = 0;
        platform::interrupt   = [&] { seen = probe.peak(); };
        platform::locks_until = lock;
        mr.reset_peaks();
        if (std::exchange(platform::locks_until, 0) > 0) { platform::interrupt(); }
        CHECK(seen == 8_KiB);
    }
}

TEST_CASE("arena: scopes that begin and end beside allocating threads lose no peak") {
    auto                     mr = lean(doubles::archetype<>{}, {.count = 4});
    std::atomic<std::size_t> out{0}, most{0}, done{0};
    {
        auto const churn = [&] {
            for (int i = 0; i < 2000; ++i) {
                std::size_t const bytes = 256 * static_cast<std::size_t>(1 + i % 16);
                void* const       p     = mr.allocate({}, bytes);
                std::size_t const now   = out.fetch_add(bytes) + bytes;
                std::size_t       seen  = most.load();
                while (now > seen && !most.compare_exchange_weak(seen, now)) {}
                out.fetch_sub(bytes);
                mr.deallocate({}, p, bytes);
            }
            ++done;
        };
        worker const threads[]{worker{0, churn}, worker{0, churn}, worker{0, churn}};
        while (done.load() != 3) {
            peak_scope scope{mr};
            // Read first, because more may be reserved before the next query.
            std::size_t const live = scope.live();
            std::size_t const free = mr.free_memory().largest;
            std::size_t const held = scope.reserved();
            CHECK(live <= held);
            CHECK(free <= held);
        }
    }
    memory_usage const now = mr.usage();
    CHECK(now.live == 0);
    CHECK(now.peak_live >= most.load()); // the threads count fewer bytes, and for a shorter time
    CHECK(now.peak_live <= now.peak_reserved);
}

TEST_CASE("arena: foreign pointers, double frees and wrong sizes are reported and ignored") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node               node;
        doubles::mishaps const told;
        sim_stream             a, b;
        arena                  mr{sim_resource{}, {.count = 8, .key = key}};
        int                    foreign = 0;
        auto const             count   = [&](error_kind kind) {
            (void)mr.usage(); // remote frees are reported when they are drained
            return told.count(kind);
        };
        mr.deallocate(b, &foreign, 4); // before a shard exists
        CHECK(told.count(error_kind::foreign_pointer) == 1);
        void* const p = mr.allocate(a, 1000);
        mr.deallocate(b, &foreign, 4);
        CHECK(told.pointer() == &foreign);
        CHECK(told.count(error_kind::foreign_pointer) == 2);
        mr.deallocate(b, static_cast<std::byte*>(p) + 256, 744);
        unsigned const line = __LINE__ - 1;
        if (key == arena_key::thread) { // reported at once by the thread's own shard
            CHECK(told.count(error_kind::interior_pointer) == 1);
        }
        CHECK(count(error_kind::interior_pointer) == 1);
        CHECK(told.last().caller.line() == line); // also if the free was queued for another shard
        CHECK(told.last().block == p);
        mr.deallocate(b, p, 999);
        CHECK(count(error_kind::wrong_size) == 1);
        CHECK(told.last().block_bytes == 1000);
        CHECK(told.last().stream.id == b.view().id());
        mr.deallocate_sync(p, 1000, 512);
        CHECK(count(error_kind::wrong_alignment) == 1);
        CHECK(mr.usage().live == 1024);
        mr.deallocate(b, p, 1000);
        mr.deallocate(a, p, 1000);
        mr.deallocate(b, p, 1000);
        CHECK(count(error_kind::double_free) == 2);
        CHECK(told.count() == 7);
        CHECK(mr.usage().live == 0);
    }
}

TEST_CASE(
    "arena: the simulator reports a second free that would take a block from its next owner") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             a, b;
    arena                  mr{sim_resource{}, {.count = 8, .key = arena_key::stream}};
    void* const            b_has_a_pool = mr.allocate(b, 1000);
    for (int round = 1; round <= 3; ++round) {
        void* const p = mr.allocate(a, 1000);
        mr.deallocate(a, p, 1000);
        mr.deallocate(b, p, 1000); // the block is not live now
        void* const q = mr.allocate(a, 1000);
        CHECK(q == p);
        CHECK(mr.usage().live == 2048); // which drains the remote frees
        CHECK(told.count(error_kind::double_free) == round);
        CHECK(told.pointer() == p);
        mr.deallocate(b, q, 1000); // the correct free
        CHECK(mr.usage().live == 1024);
    }
    CHECK(told.count() == 3);
    mr.deallocate(b, b_has_a_pool, 1000);
}

TEST_CASE("arena: a free of a block that is reserved for another caller is reported") {
    for (bool const taken_in : {false, true}) {
        CAPTURE(taken_in);
        sim_node               node;
        doubles::mishaps const told;
        sim_stream             a, b, c;
        arena                  mr{
            doubles::interrupted_memory{}, {.count = 8, .key = arena_key::stream}, exact_growth{}};
        void* const have_pools[] = {mr.allocate(b, 1000), mr.allocate(c, 1000)};
        void* const p            = mr.allocate_sync(2_MiB);
        void* const wall         = mr.allocate_sync(2_MiB);
        doubles::busy(a, p, 2_MiB, 5ms);
        mr.deallocate(a, p, 2_MiB);
        std::size_t const live                   = mr.usage().live;
        doubles::interrupted_platform::meanwhile = [&] {
            mr.deallocate(b, p, 2_MiB); // the block is not live now
            mr.deallocate(c, p, 2_MiB); // at least one of the two streams has another shard
            if (taken_in) { CHECK(mr.usage().live == live); }
        };
        CHECK(mr.allocate_sync(2_MiB) == p);
        CHECK(mr.usage().live == live + 2_MiB);
        CHECK(told.count(error_kind::double_free) == 2);
        CHECK(mr.free_memory().bytes + mr.usage().live == mr.usage().reserved);
        mr.deallocate_sync(p, 2_MiB);
        mr.deallocate_sync(wall, 2_MiB);
        mr.deallocate(b, have_pools[0], 1000);
        mr.deallocate(c, have_pools[1], 1000);
        CHECK(mr.usage().live == 0);
        CHECK(told.count() == 2);
    }
}

TEST_CASE("arena: of two remote frees of one block the second is reported") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream             a, b, c;
    arena       mr{sim_resource{}, {.count = 8, .key = arena_key::stream}, exact_growth{}};
    void* const has_a_pool[] = {mr.allocate(b, 1000), mr.allocate(c, 1000)};
    void* const p            = mr.allocate(a, 1_MiB);
    a.synchronize(); // now each stream may use the block
    doubles::busy(b, p, 1_MiB, 5ms);
    mr.deallocate(b, p, 1_MiB);
    mr.deallocate(c, p, 1_MiB); // once more
    void* const q = mr.allocate(a, 1_MiB);
    CHECK(q == p);
    doubles::busy(a, q, 1_MiB);
    CHECK(told.count(error_kind::double_free) == 1);
    mr.deallocate(a, q, 1_MiB);
    mr.deallocate(b, has_a_pool[0], 1000);
    mr.deallocate(c, has_a_pool[1], 1000);
    CHECK(mr.usage().live == 0);
    CHECK(node.reports().size() == 1); // the refused free
    CHECK(told.count() == 1);
}

TEST_CASE("arena: a free by the owner of a block whose remote free is queued is reported") {
    for (bool const by_stream : {true, false}) {
        CAPTURE(by_stream);
        sim_node               node;
        doubles::mishaps const told;
        sim_stream             a, b;
        arena       mr{sim_resource{}, {.count = 8, .key = arena_key::stream}, exact_growth{}};
        void* const have_pools[] = {mr.allocate(a, 1000), mr.allocate(b, 1000)};
        void* const p            = by_stream ? mr.allocate(a, 1_MiB) : mr.allocate_sync(1_MiB);
        mr.deallocate(b, p, 1_MiB);
        mr.deallocate(a, p, 1_MiB); // the second free
        void* const q = by_stream ? mr.allocate(a, 1_MiB) : mr.allocate_sync(1_MiB);
        CHECK(q == p);
        CHECK(told.count(error_kind::double_free) == 1);
        CHECK(told.pointer() == p);
        CHECK(mr.usage().live == 2048 + 1_MiB); // the second caller keeps the block
        mr.deallocate(a, q, 1_MiB);
        mr.deallocate(a, have_pools[0], 1000);
        mr.deallocate(b, have_pools[1], 1000);
        CHECK(mr.usage().live == 0);
        CHECK(told.count() == 1);
    }
}

TEST_CASE("arena: the error sink may allocate when a second free is reported") {
    sim_node         node;
    doubles::mishaps told;
    sim_stream       a, b;
    arena            mr{sim_resource{}, {.count = 8, .key = arena_key::stream}, exact_growth{}};
    void* const      have_pools[] = {mr.allocate(a, 1000), mr.allocate(b, 1000)};
    void* const      x            = mr.allocate(a, 2000);
    void*            q            = nullptr;
    mr.deallocate(b, x, 2000);
    unsigned const second = __LINE__ + 1;
    mr.deallocate(b, x, 2000);
    told.also = [&] { q = q != nullptr ? q : mr.allocate(a, 1_MiB); };
    (void)mr.usage(); // drains the queue
    told.also = nullptr;
    CHECK(q != nullptr);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(told.last().caller.line() == second);
    CHECK(mr.usage().live == 2048 + 1_MiB);
    mr.deallocate(a, q, 1_MiB);
    mr.deallocate(a, have_pools[0], 1000);
    mr.deallocate(b, have_pools[1], 1000);
    CHECK(told.count() == 1);
}

TEST_CASE("arena: a shard drains its remote frees before it grows, trims, or refuses") {
    sim_node          node{{.on_report = sim_on_report::collect}};
    sim_stream        s;
    auto              mr       = lean(sim_resource{}, {.max_size = 8_MiB, .count = 4});
    std::deque<void*> out      = {};
    auto const        take_all = [&] {
        while (out.size() != 8) { out.push_back(mr.allocate(s, 1_MiB)); }
    };
    auto const leave_all = [&] {
        elsewhere([&] {
            for (; !out.empty(); out.pop_front()) { mr.deallocate(s, out.front(), 1_MiB); }
        });
    };
    take_all();
    for (int round = 0; round < 3; ++round) {
        leave_all();
        take_all(); // all memory is in use now
    }
    leave_all();
    SUBCASE("usage") { CHECK(mr.usage().live == 0); }
    SUBCASE("free memory") { CHECK(mr.free_memory().bytes == 8_MiB); }
    SUBCASE("trim") { CHECK(mr.trim() == 8_MiB); }
    SUBCASE("trim, as far as something is kept") { CHECK(mr.trim(1_MiB) == 7_MiB); }
    SUBCASE("peaks") {
        (void)mr.reset_peaks();
        CHECK(mr.usage().peak_live == 0);
    }
    SUBCASE("a request of another private pool") {
        elsewhere([&] {
            void* const p = mr.allocate(s, 8_MiB);
            mr.deallocate(s, p, 8_MiB);
        });
    }
    SUBCASE("what does not throw") {
        void* const p = mr.try_allocate(s, 8_MiB);
        CHECK(p != nullptr);
        mr.deallocate(s, p, 8_MiB);
    }
    CHECK(mr.usage().live == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("arena: a stream with remote frees may be retired and destroyed") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream             s;
    auto                   mr = lean(sim_resource{}, {.count = 4});
    void* const            p  = mr.allocate(s, 1_MiB);
    s.synchronize(); // now each stream may use the block
    elsewhere([&] {
        sim_stream const other;
        doubles::busy(other, p, 1_MiB, 5ms);
        mr.deallocate(other, p, 1_MiB);
        mr.retire(other);
    });
    void* const q = mr.allocate(s, 1_MiB);
    CHECK(q == p);
    doubles::busy(s, q, 1_MiB); // ordered after the other's work
    mr.deallocate(s, q, 1_MiB);
    CHECK(mr.usage().waits == 1);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "arena: a remote free before a capture of its stream is not lost, nor queried repeatedly") {
    for (bool const has_own : {false, true}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        sim_stream             s, other, third;
        auto                   mr = lean(doubles::shy_memory{}, {.count = 4});
        void*                  blocks[8];
        for (void*& p : blocks) { p = mr.allocate(s, 1_MiB); }
        int asked = 0;
        elsewhere([&] {
            if (has_own) { mr.deallocate(third, mr.allocate(third, 1_MiB), 1_MiB); }
            int const before = doubles::shy_platform::asked;
            for (void* const p : blocks) { mr.deallocate(other, p, 1_MiB); }
            asked = doubles::shy_platform::asked - before;
        });
        CHECK(asked == (has_own ? 1 : 8));
        sim_graph::begin(other);
        CHECK(mr.usage().live == 0);
        (void)sim_graph::end(other);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("arena: remote frees count as idle memory when shards are cleaned up") {
    sim_node    node;
    sim_stream  s;
    auto        mr = lean(sim_resource{}, {.count = 4, .trim_above = 2_MiB});
    void* const p  = mr.allocate(s, 2_MiB);
    elsewhere([&] {
        mr.deallocate_sync(p, 2_MiB);
        void* const q = mr.allocate(s, 1_MiB);
        CHECK(node.figures().used == 1_MiB);
        mr.deallocate(s, q, 1_MiB);
    });
}

TEST_CASE(
    "arena: memory that shards get at once from an upstream pool has the requested alignment") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             a, b;
    auto                   mr  = lean(pool{sim_resource{}, {.initial_size = 8_MiB}}, {.count = 1});
    void* const            pad = mr.upstream().allocate(b, 256);
    void* const            p   = mr.allocate(a, 1_MiB, 2_MiB);
    doubles::busy(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB, 2_MiB);
    void* const q = mr.allocate(b, 1_MiB, 2_MiB);
    CHECK(q != p);
    CHECK(reinterpret_cast<std::uintptr_t>(q) % 2_MiB == 0);
    mr.deallocate(b, q, 1_MiB, 2_MiB);
    mr.upstream().deallocate(b, pad, 256);
    CHECK(mr.trim() == 8_MiB);
    CHECK(told.count() == 0);
}

TEST_CASE("arena: live blocks at its end are reported, and its chunks are freed") {
    sim_node               node;
    doubles::mishaps const told;
    {
        sim_stream s;
        arena      mr{sim_resource{}};
        doubles::busy(s, mr.allocate(s, 1_MiB), 1_MiB);
    }
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(std::string_view{told.last().resource} == "arena");
    CHECK(node.figures().used == 0);
}

TEST_CASE("arena: a move takes shards and blocks along") {
    using movable = doubles::archetype<sim_platform>;
    sim_node    node;
    sim_stream  s, t;
    arena       a{movable{}, by_stream};
    void* const p = a.allocate(s, 1_MiB);
    arena       b{std::move(a)};
    CHECK(b.usage().live == 1_MiB);
    CHECK(b.owns(p));
    a             = arena{movable{}, by_stream};
    void* const q = a.allocate(s, 30_MiB);
    void* const r = b.allocate(t, 30_MiB); // a chunk through the upstream's new place
    b.deallocate(s, p, 1_MiB);
    b.deallocate(t, r, 30_MiB);
    CHECK(b.trim() != 0);
    b = std::move(a);
    CHECK(b.usage().live == 30_MiB);
    b.deallocate(s, q, 30_MiB);
    CHECK(b.trim() != 0);
    CHECK(node.figures().used == 0);
}

TEST_CASE("arena: a stream that was retired may be destroyed, and its frees are still waited for") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        auto                   mr = lean(sim_resource{}, {.count = 4, .key = key});
        for (int i = 0; i < 100; ++i) {
            sim_stream const s = doubles::raw_stream(); // its end is not announced
            void* const      p = mr.allocate(s, 1_MiB);
            doubles::busy(s, p, 1_MiB);
            mr.deallocate(s, p, 1_MiB);
            mr.retire(s);
        }
        CHECK(mr.usage().reserved <= 4_MiB);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("arena: with eager events a stream may be destroyed without retire, and each free has "
          "its event") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        auto mr = lean(sim_resource{}, {.count = 4, .key = key, .events = event_policy::eager});
        auto const before = node.now();
        for (int i = 0; i < 20; ++i) {
            sim_stream  s;
            void* const p = mr.allocate(s, 1_MiB);
            doubles::busy(s, p, 1_MiB, 1s);
            mr.deallocate(s, p, 1_MiB);
        }
        CHECK(mr.usage().events == 20);
        CHECK(mr.usage().reserved <= 4_MiB);
        CHECK(node.now() - before < 1s); // the host did not wait
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("arena: the shard of a retired stream is assigned to the next stream") {
    sim_node    node;
    sim_stream  first, second, third;
    auto        mr = lean(sim_resource{}, {.count = 2, .key = arena_key::stream});
    void* const p  = mr.allocate(first, 1_MiB);
    void* const q  = mr.allocate(second, 1_MiB);
    mr.deallocate_sync(q, 1_MiB);
    mr.retire(second);
    CHECK(mr.allocate(third, 1_MiB) == q);
    mr.deallocate(third, q, 1_MiB);
    mr.deallocate(first, p, 1_MiB);
}

TEST_CASE("arena: a free is valid if its stream gets another shard during the call") {
    using platform = interruptible_platform;
    using stream   = platform::stream;
    doubles::mishaps const              told;
    arena<doubles::archetype<platform>> mr{doubles::archetype<platform>{},
                                           {.count = 2, .key = arena_key::stream}};
    constexpr stream                    first{1}, second{2};
    void* const                         p = mr.allocate(first, 4_KiB);
    void* const                         q = mr.allocate(second, 4_KiB); // of the other shard
    platform::interrupt = [&] { // another thread uses so many streams that all lose their shards
        for (std::uint64_t i = 3; i < 3 + stream_affinity::most; ++i) {
            mr.deallocate(stream{i}, mr.allocate(stream{i}, 4_KiB), 4_KiB);
        }
        mr.deallocate(second, mr.allocate(second, 4_KiB), 4_KiB); // now of the shard of `first`
    };
    platform::locks_until = 1;
    mr.deallocate(second, p, 4_KiB);
    CHECK(told.count() == 0);
    CHECK(mr.usage().live == 4_KiB);
    mr.deallocate(second, q, 4_KiB);
    CHECK(told.count() == 0);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("arena: it forwards forget_captures to the upstream") {
    arena mr{doubles::archetype<>{}};
    mr.forget_captures();
    CHECK(mr.upstream().forgotten() == 1);
}

TEST_CASE("arena: it forwards retire to the upstream") {
    arena mr{doubles::archetype<>{}, by_stream};
    mr.retire({});
    CHECK(mr.upstream().retired() == 1);
}

namespace {
struct counts_retired_streams : sim_resource {
    using sim_resource::sim_resource;
    int  retired = 0;
    void retire(sim_stream_view) noexcept { ++retired; }
};
} // namespace

TEST_CASE("arena: it forwards retire to the upstream also if the stream no longer exists") {
    sim_node        node;
    arena           mr{counts_retired_streams{}, {.key = arena_key::stream}};
    sim_stream_view ended;
    {
        sim_stream const s;
        ended = s;
    }
    CHECK_THROWS_AS(mr.retire(ended), sim_error);
    CHECK(mr.upstream().retired == 1);
}

TEST_CASE("arena: no operation breaks a capture") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        laws::captures_go_on([&](event_policy events, bool graphs) {
            return lean(
                sim_resource{} | with::stream_ordered,
                {.max_size = 8_MiB, .count = 8, .key = key, .events = events, .graphs = graphs});
        });
    }
}

TEST_CASE("arena: memory that a capture freed is not reused until the graphs are forgotten") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    auto       mr = lean(sim_resource{},
                         {.max_size = 4_MiB, .count = 2, .key = arena_key::stream, .graphs = true});
    mr.deallocate_sync(mr.allocate(s, 2_MiB), 2_MiB);
    void* const busy = mr.allocate(other, 2_MiB);
    doubles::busy(other, busy, 2_MiB);
    mr.deallocate(other, busy, 2_MiB);
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 2_MiB);
    CHECK(mr.try_allocate(s, 1_MiB) == nullptr); // the memory of the other shard would need a wait
    CHECK(mr.usage().reserved == 4_MiB);
    mr.deallocate(s, p, 2_MiB);
    sim_graph const graph = sim_graph::end(s);
    CHECK(mr.try_allocate(other, 3_MiB) == nullptr);
    CHECK(mr.trim() == 0); // the chunk of the other shard was already returned
    mr.forget_captures();
    void* const r = mr.allocate(other, 4_MiB);
    mr.deallocate(other, r, 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("arena: graph-retained memory stays so if a later capture's block is freed outside") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        laws::graphs_keep([&] { // if streams have shards of their own, all use one here
            auto mr =
                lean(sim_resource{}, {.max_size = 1_MiB, .count = 1, .key = key, .graphs = true});
            mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB);
            return mr;
        });
    }
}

TEST_CASE(
    "arena: after any failed platform call nothing is lost, and no stream gets memory too early") {
    // A block is freed to a shard that is not the caller's.
    auto const pass_on = [](auto& mr, sim_stream_view to, std::size_t bytes) {
        try {
            void* const p = mr.allocate_sync(bytes);
            elsewhere([&] {
                doubles::busy(to, p, bytes);
                mr.deallocate(to, p, bytes);
            });
        } catch (std::exception const&) {}
        CHECK(mr.usage().live == 0);
    };
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        laws::survives_platform_faults(
            [&](event_policy events) {
                return lean(sim_resource{}, {.max_size   = 4_MiB,
                                             .count      = 2,
                                             .key        = key,
                                             .events     = events,
                                             .trim_above = 2_MiB});
            },
            [&](auto& mr, sim_stream_view a, sim_stream_view b) {
                laws::take_turns(mr, a, b, {1_MiB, 3_MiB, 2_MiB});
                pass_on(mr, a, 1_MiB);
                pass_on(mr, b, 2_MiB);
                laws::take_turns(mr, a, b, {1_MiB, 2_MiB});
            });
    }
}

TEST_CASE("arena: it passes random operations on sixteen streams with little memory") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        sim_node node{{.on_report = sim_on_report::collect}};
        {
            arena mr{sim_resource{},
                     {.max_size = 56_MiB, .count = 8, .key = key, .trim_above = 16_MiB},
                     fixed_growth{.step = 2_MiB}};
            laws::model_heap<decltype(mr)>{mr,
                                           {.room       = 48_MiB,
                                            .largest    = 1_MiB,
                                            .operations = 2'000,
                                            .streams    = 16,
                                            .seed       = 77,
                                            .may_refuse = true}}
                .run();
            CHECK(mr.usage().live == 0);
            CHECK(mr.usage().peak_reserved <= 56_MiB);
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
        CHECK(node.figures().used == 0);
    }
}

TEST_CASE("arena: it is correct for two streams with six operations each, in every order") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        laws::every_interleaving(
            [=] { return arena{sim_resource{}, {.max_size = 20_MiB, .count = 2, .key = key}}; },
            8_MiB);
    }
}
