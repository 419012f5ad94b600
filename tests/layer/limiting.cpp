// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/limiting.hpp> // first: the header stands alone

#include "../doubles/everything.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <vector> // vector

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
