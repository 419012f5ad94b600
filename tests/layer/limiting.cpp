// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/limiting.hpp> // first: the header stands alone

#include "../doubles/everything.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../doubles/recorder.hpp"
#include "../doubles/turns.hpp"
#include "../laws/resource.hpp"

#include <vram/base/core/worker.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <atomic>     // atomic
#include <functional> // ref
#include <list>       // list
#include <random>     // minstd_rand
#include <utility>    // move, swap
#include <vector>     // vector

using namespace vram;

template class vram::limiting<doubles::archetype<>>;
template class vram::limiting<doubles::minimal_resource<>>;

TEST_CASE("limiting: it keeps the laws of a resource") {
    laws::resource([](auto up) { return limiting{std::move(up), 64_KiB}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return limiting{std::move(up), 64_KiB}; });
    laws::resource_of_many_threads([](auto up) { return limiting{std::move(up), 64_KiB}; });
}

TEST_CASE("limiting: it counts the sizes that the upstream allocates") {
    limiting    mr{doubles::everything{}, 256}; // in units of 64 bytes
    void* const p = mr.allocate({}, 65, 8);
    CHECK(mr.used() == 128);
    void* const q = mr.allocate_sync(1, 8);
    CHECK(mr.used() == 192);
    try {
        (void)mr.allocate_sync(65, 8);
        FAIL("128 bytes do not fit");
    } catch (over_limit const& e) {
        CHECK(e.numbers().asked == 65);
        CHECK(e.numbers().rounded == 128);
        CHECK(e.room() == 64);
    }
    CHECK(mr.try_allocate({}, 65, 8) == nullptr);
    CHECK(mr.try_allocate_sync(65, 8) == nullptr);
    CHECK(mr.try_allocate_ready({}, 65, 8) == nullptr);
    CHECK(mr.used() == 192);
    void* const r = mr.try_allocate_ready({}, 64, 8);
    CHECK(mr.used() == 256);
    mr.deallocate({}, r, 64, 8);
    mr.deallocate_sync(q, 1, 8);
    mr.deallocate({}, p, 65, 8);
    CHECK(mr.used() == 0);
}

TEST_CASE("limiting: blocks of any size together use no more device memory than the limit") {
    sim_node   node{{.capacity = 8_GiB, .backed = false}};
    sim_stream s;
    for (std::size_t const bytes : {1, 8, 513, 4000}) {
        limiting           mr{sim_async_resource{}, 128_KiB};
        std::vector<void*> all;
        while (void* const p = mr.try_allocate(s, bytes)) { all.push_back(p); }
        CHECK(node.figures().used <= 128_KiB);
        CHECK(node.figures().used + align(bytes, 512) > 128_KiB);
        for (void* p : all) { mr.deallocate(s, p, bytes); }
        CHECK(mr.used() == 0);
        s.synchronize();
    }
}

TEST_CASE("limiting: over a pool it counts the live bytes of the pool") {
    sim_node   node{{.capacity = 64_MiB, .backed = false}};
    sim_stream s;
    auto const agree = [&](auto memory) {
        limiting mr{std::move(memory), 1_MiB};
        for (std::size_t const bytes : {1, 255, 256, 257, 1000, 5000, 100'000}) {
            void* const p = mr.allocate(s, bytes);
            CHECK(mr.used() == mr.usage().live);
            mr.deallocate(s, p, bytes);
            CHECK(mr.used() == 0);
        }
    };
    agree(pool<stream_ordered<sim_resource>>{});
    agree(binned<stream_ordered<sim_resource>>{});
}

TEST_CASE("limiting: a failing upstream leaves the budget unchanged") {
    laws::survives_every_failure([](auto up) { return limiting{std::move(up), 1000}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.used(); });
}

TEST_CASE("limiting: a request that fits exactly succeeds, and one byte more is refused with its "
          "numbers") {
    limiting    mr{doubles::archetype<>{}, 100};
    void* const p = mr.allocate_sync(60);
    CHECK(mr.used() == 60);
    CHECK(mr.limit() == 100);
    try {
        (void)mr.allocate_sync(41);
        FAIL("41 bytes do not fit");
    } catch (over_limit const& e) {
        CHECK(e.numbers().asked == 41);
        CHECK(e.numbers().live == 60);
        CHECK(e.numbers().limit == 100);
        CHECK(e.room() == 40);
    }
    void* const q = mr.allocate_sync(40);
    CHECK(mr.used() == 100);
    mr.deallocate_sync(q, 40);
    mr.deallocate_sync(p, 60);
    CHECK(mr.used() == 0);
}

TEST_CASE("limiting: try_allocate returns null without throwing, and the count is unchanged") {
    doubles::faults plan;
    limiting        mr{doubles::failing_resource{doubles::archetype<>{}, plan}, 100};
    CHECK(mr.try_allocate_sync(101) == nullptr);
    CHECK(mr.try_allocate({}, 101) == nullptr);
    CHECK(mr.used() == 0);
    plan.fail_nth(1);
    CHECK(mr.try_allocate_sync(50) == nullptr);
    CHECK(mr.used() == 0);
    plan.fail_nth(1);
    CHECK(mr.try_allocate({}, 50) == nullptr);
    CHECK(mr.used() == 0);
    void* const p = mr.try_allocate({}, 50);
    CHECK(mr.used() == 50);
    mr.deallocate({}, p, 50);
    CHECK(mr.used() == 0);
}

TEST_CASE("limiting: a move takes the budget along") {
    limiting    first{doubles::archetype<>{}, 100};
    void* const p      = first.allocate_sync(70);
    limiting    second = std::move(first);
    CHECK(second.used() == 70);
    CHECK(first.used() == 0);
    second.deallocate_sync(p, 70);
    CHECK(second.used() == 0);
}

TEST_CASE("limiting: two limits can be nested") {
    auto mr = doubles::archetype<>{} | with::limiting(100) | with::limiting(1000);
    static_assert(std::is_same_v<decltype(mr), limiting<limiting<doubles::archetype<>>>>);
    CHECK_THROWS_AS((void)mr.allocate_sync(101), over_limit);
    CHECK(mr.used() == 0);
    CHECK(mr.upstream().used() == 0);
}

namespace {

using detail::worker;

/// A block of `bytes` at `p`.
struct limited_block {
    void*       p;
    std::size_t bytes;
};

/// Frees the block of another thread, the first time that a request is refused.
struct free_by_other {
    static constexpr unsigned max_tries = 1;

    limited_block* block;

    template <class R>
    bool operator()(R& upstream, failed_attempt const&) const {
        if (block->p == nullptr) { return false; }
        worker{0, [&] { upstream.deallocate_sync(std::exchange(block->p, nullptr), block->bytes); }}
            .join();
        return true;
    }
};

} // namespace

TEST_CASE("limiting: with threads by turns each request succeeds or is refused as with one "
          "thread, and each refusal is notified once") {
    for (unsigned seed = 0; seed != 4; ++seed) {
        constexpr std::size_t                    limit = 10'000;
        doubles::recorder<host_platform::stream> seen;
        limiting                   mr{observed{doubles::archetype<>{}, std::ref(seen)}, limit};
        std::vector<limited_block> live; // freed by any thread
        std::size_t                model = 0, refusals = 0;
        bool                       same = true;
        std::minstd_rand           random{seed + 1};
        doubles::take_turns(2000, random, [&] {
            std::size_t const n = 1 + random() % (random() % 8 == 0 ? 4000 : 400);
            if (random() % 16 < 9) {
                bool const  fits = n <= limit - model;
                void* const p    = mr.try_allocate_sync(n);
                same             = same && (p != nullptr) == fits;
                if (p != nullptr) {
                    model += n, live.push_back({p, n});
                } else {
                    ++refusals;
                }
            } else if (!live.empty()) {
                std::swap(live.back(), live[random() % live.size()]);
                mr.deallocate_sync(live.back().p, live.back().bytes);
                model -= live.back().bytes, live.pop_back();
            }
            if (random() % 16 == 0) { same = same && mr.used() == model; }
            if (random() % 64 == 0) {
                try {
                    (void)mr.allocate_sync(limit - model + 1);
                    same = false;
                } catch (over_limit const& e) {
                    ++refusals;
                    same = same && e.numbers().live == model && e.room() == limit - model;
                }
            }
        });
        CHECK(same);
        CHECK(refusals != 0);
        CHECK(seen.count(memory_event_kind::refused, "limiting") == refusals);
        CHECK(mr.used() == model);
        limiting moved = std::move(mr);
        CHECK(moved.used() == model);
        CHECK(mr.used() == 0);
        for (limited_block const& each : live) { moved.deallocate_sync(each.p, each.bytes); }
        CHECK(moved.used() == 0);
    }
}

TEST_CASE("limiting: bytes that other threads have freed are free for each thread, to the last") {
    limiting                   mr{doubles::archetype<>{}, 1000};
    std::vector<limited_block> live;
    auto const                 in_thread = [](auto const& f) { worker{0, f}.join(); };
    live.push_back({mr.allocate_sync(400), 400});
    in_thread([&] { live.push_back({mr.allocate_sync(600), 600}); });
    CHECK(mr.try_allocate_sync(1) == nullptr);
    // Two threads at the same time, so that each has its own part of the free bytes.
    worker{0,
           [&] {
               mr.deallocate_sync(live[0].p, 400);
               in_thread([&] { mr.deallocate_sync(live[1].p, 600); });
           }}
        .join();
    CHECK(mr.used() == 0);
    CHECK(mr.try_allocate_sync(1001) == nullptr);
    void* const p = mr.try_allocate_sync(1000);
    CHECK(p != nullptr);
    CHECK(mr.used() == 1000);
    in_thread([&] {
        CHECK(mr.try_allocate_sync(1) == nullptr);
        CHECK_THROWS_AS((void)mr.allocate_sync(1), over_limit);
    });
    mr.deallocate_sync(p, 1000);
    CHECK(mr.used() == 0);
}

TEST_CASE("limiting: threads never exceed the limit, and are not refused while it has room") {
    // 4 threads with up to 4 blocks of up to 64 bytes: the limit is the most that they need.
    constexpr std::size_t limit = 4 * 4 * 64;
    limiting              mr{statistics{doubles::archetype<>{}}, limit};
    std::atomic<unsigned> refused{0}, exceeded{0};
    std::list<worker>     threads;
    for (unsigned t = 0; t != 4; ++t) {
        threads.emplace_back(0, [&, t] {
            std::minstd_rand           random{t + 1};
            std::vector<limited_block> live;
            for (unsigned i = 0; i != 5000; ++i) {
                if (live.size() == 4) {
                    std::swap(live.back(), live[random() % 4]);
                    mr.deallocate_sync(live.back().p, live.back().bytes);
                    live.pop_back();
                }
                std::size_t const n = 1 + random() % 64;
                live.push_back({mr.try_allocate_sync(n), n});
                if (live.back().p == nullptr) { ++refused; }
                if (i % 64 == 0 && mr.used() > limit) { ++exceeded; }
            }
            for (limited_block const& each : live) { mr.deallocate_sync(each.p, each.bytes); }
        });
    }
    for (worker& each : threads) { each.join(); }
    CHECK(refused == 0);
    CHECK(exceeded == 0);
    CHECK(mr.used() == 0);
    CHECK(mr.upstream().overall().bytes.peak <= static_cast<std::ptrdiff_t>(limit));
    CHECK(mr.upstream().overall().refusals == 0);
}

TEST_CASE("limiting: a retry policy above it gets bytes that another thread frees") {
    limited_block held{};
    retrying      mr{limiting{doubles::archetype<>{}, 100}, free_by_other{&held}};
    worker{0, [&] { held = {mr.allocate_sync(60), 60}; }}.join();
    void* const p = mr.allocate_sync(100);
    CHECK(mr.upstream().used() == 100);
    CHECK_THROWS_AS((void)mr.allocate_sync(1), over_limit);
    mr.deallocate_sync(p, 100);
    CHECK(mr.upstream().used() == 0);
}

TEST_CASE("limiting: threads of a simulated machine share the limit of an arena") {
    sim_node              node{{.capacity = 64_MiB, .backed = false}};
    limiting              mr{arena<stream_ordered<sim_resource>>{}, 1_MiB};
    std::list<sim_thread> threads;
    for (unsigned t = 0; t != 3; ++t) {
        threads.emplace_back(sim_platform::current_device(), [&] {
            sim_stream s;
            for (unsigned i = 0; i != 200; ++i) {
                void* const p = mr.allocate(s, 256_KiB);
                mr.deallocate(s, p, 256_KiB);
            }
        });
    }
    for (sim_thread& each : threads) { each.join(); }
    CHECK(mr.used() == 0);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("limiting: a free that the upstream refuses leaves the budget unchanged") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps told;
    limiting         mr{pool{stream_ordered{sim_resource{}}}, 1_MiB};
    sim_stream       s;
    void* const      p = mr.allocate(s, 256_KiB);
    mr.deallocate(s, p, 512_KiB); // wrong size
    mr.deallocate_sync(p, 512_KiB);
    CHECK(mr.used() == 256_KiB);
    mr.deallocate(s, p, 256_KiB);
    mr.deallocate(s, p, 256_KiB); // double free
    CHECK(told.count() == 3);
    CHECK(mr.used() == 0);
    CHECK_THROWS_AS((void)mr.allocate(s, 1_MiB + 1), over_limit);
    void* const all = mr.allocate(s, 1_MiB);
    CHECK(mr.try_allocate(s, 1) == nullptr);
    mr.deallocate(s, all, 1_MiB);
}
