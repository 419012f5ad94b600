// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/statistics.hpp> // first: the header stands alone

#include "../doubles/delaying_resource.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

#include <vram/handle/shared.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

#include <thread>

using namespace vram;
using namespace vram::detail;

template class vram::statistics<doubles::archetype<>>;
template class vram::statistics<doubles::archetype<>, no_lock>;
template class vram::statistics<doubles::minimal_resource<>>;

TEST_CASE("statistics: it keeps the laws of a resource") {
    laws::resource([](auto up) { return statistics{std::move(up)}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::statistics; });
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::statistics(); });
}

TEST_CASE("statistics: a failing upstream counts as a refusal only") {
    laws::survives_every_failure([](auto up) { return statistics{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.now().bytes.value; });
    doubles::faults plan;
    statistics      mr{doubles::failing_resource{doubles::archetype<>{}, plan}};
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), out_of_memory);
    CHECK_THROWS_AS((void)mr.allocate({}, 10), out_of_memory);
    CHECK(mr.try_allocate_sync(10) == nullptr);
    CHECK(mr.try_allocate({}, 10) == nullptr);
    CHECK(mr.now().refusals == 4);
    CHECK(mr.now().bytes == counter{});
    CHECK(mr.now().blocks == counter{});
}

TEST_CASE("statistics: it counts value, peak and total of bytes and blocks") {
    statistics  mr{doubles::archetype<>{}};
    void* const p = mr.allocate_sync(100);
    void* const q = mr.try_allocate({}, 50);
    mr.deallocate_sync(p, 100);
    CHECK(mr.now().bytes == counter{50, 150, 150});
    CHECK(mr.now().blocks == counter{1, 2, 2});
    mr.deallocate({}, q, 50);
    CHECK(mr.now().bytes == counter{0, 150, 150});
    CHECK(mr.now().refusals == 0);
}

TEST_CASE("statistics: zero bytes count as no block and no refusal") {
    statistics mr{doubles::archetype<>{}};
    mr.deallocate_sync(mr.allocate_sync(0), 0);
    mr.deallocate({}, mr.try_allocate({}, 0), 0);
    CHECK(mr.now() == counters{});
}

TEST_CASE("statistics: a nested scope counts from zero, and the outer scope includes it") {
    statistics  mr{doubles::archetype<>{}};
    void* const before = mr.allocate_sync(1000);
    mr.push();
    void* const outer = mr.allocate_sync(100);
    mr.push();
    mr.deallocate_sync(mr.allocate_sync(30), 30);
    mr.deallocate_sync(before, 1000); // it was allocated before both measurements
    CHECK(mr.now().bytes == counter{-1000, 30, 30});
    CHECK(mr.overall().bytes == counter{100, 1130, 1130});
    CHECK(mr.pop().bytes == counter{-1000, 30, 30});
    CHECK(mr.now().bytes == counter{-900, 130, 130});
    CHECK(mr.pop().bytes == counter{-900, 130, 130});
    CHECK(mr.now().bytes == counter{100, 1130, 1130});
    CHECK(mr.overall() == mr.now());
    mr.deallocate_sync(outer, 100);
}

TEST_CASE("statistics: over an upstream without usage it counts by itself") {
    statistics  mr{doubles::minimal_resource<>{}};
    void* const p = mr.allocate_sync(100);
    CHECK(mr.usage().live == 100);
    CHECK(mr.usage().requested == 100);
    mr.deallocate_sync(p, 100);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().peak_live == 100);
    CHECK(mr.usage().allocations == 1);
}

TEST_CASE("statistics: freed bytes are subtracted before another thread can allocate them") {
    // One block of 100 bytes exists. Two threads take turns in owning it; a layer that subtracts
    // only after the memory was freed would sometimes count it twice.
    statistics mr{doubles::delaying_resource{doubles::archetype<>{100}}};
    auto const pass = [&] {
        for (int i = 0; i < 50; ++i) {
            if (void* const p = mr.try_allocate_sync(100)) { mr.deallocate_sync(p, 100); }
        }
    };
    { worker const one{0, pass}, two{0, pass}; }
    CHECK(mr.now().bytes.peak == 100);
}

TEST_CASE("statistics: two of them in one stack are distinct when composed with `|`") {
    auto mr = doubles::archetype<>{} | with::statistics | with::statistics;
    static_assert(std::is_same_v<decltype(mr), statistics<statistics<doubles::archetype<>>>>);
    mr.deallocate_sync(mr.allocate_sync(8), 8);
    CHECK(mr.now().bytes.total == 8);
    CHECK(mr.upstream().now().bytes.total == 8);
}

TEST_CASE("statistics: numbered scopes end in any order, each with its own counts") {
    statistics          mr{doubles::archetype<>{}};
    void* const         before = mr.allocate_sync(1000);
    std::uint64_t const outer  = mr.push();
    void* const         a      = mr.allocate_sync(100);
    std::uint64_t const middle = mr.push();
    void* const         b      = mr.allocate_sync(30);
    std::uint64_t const inner  = mr.push();
    void* const         c      = mr.allocate_sync(7);
    CHECK(mr.now(outer).bytes == counter{137, 137, 137});
    CHECK(mr.now(middle).bytes == counter{37, 37, 37});
    CHECK(mr.now(inner).bytes == counter{7, 7, 7});

    CHECK(mr.pop(outer).bytes == counter{137, 137, 137}); // the outermost first
    CHECK(mr.now(middle).bytes == counter{37, 37, 37});
    mr.deallocate_sync(c, 7);
    mr.deallocate_sync(b, 30);
    CHECK(mr.pop(middle).bytes == counter{0, 37, 37});
    CHECK(mr.pop(inner).bytes == counter{-30, 7, 7});
    mr.deallocate_sync(a, 100);
    mr.deallocate_sync(before, 1000);
    CHECK(mr.now() == mr.overall());
    CHECK(mr.overall().bytes == counter{0, 1137, 1137});
}

TEST_CASE("statistics: the usage has no live bytes if more are freed than were allocated") {
    shared      base{doubles::minimal_resource<>{}};
    void* const p = base.allocate_sync(100); // not through the layer
    statistics  mr{base};
    mr.deallocate_sync(p, 100);
    CHECK(mr.overall().bytes.value == -100);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().requested == 0);
}

TEST_CASE("statistics: a free that the upstream refuses leaves the counters unchanged") {
    doubles::mishaps told;
    auto             mr = host_resource{} | with::pool | with::statistics;
    for (int round = 0; round != 2; ++round) {
        void* const p = mr.allocate({}, 1000);
        void* const q = mr.allocate({}, 500);
        mr.push();
        mr.deallocate({}, p, 2000);  // wrong size
        mr.deallocate_sync(q, 5000); // wrong size
        CHECK(mr.pop() == counters{});
        CHECK(mr.overall().bytes.value == 1500);
        CHECK(mr.overall().blocks.value == 2);
        mr.deallocate({}, p, 1000);
        mr.deallocate({}, p, 1000); // double free
        mr.deallocate_sync(q, 500);
        CHECK(mr.overall().bytes.value == 0);
        CHECK(mr.overall().blocks.value == 0);
        CHECK(mr.overall().bytes.peak == 1500);
        CHECK(mr.overall().blocks.peak == 2);
        // In the second round, each thread has counters of its own.
        std::thread{[&] { mr.deallocate({}, mr.allocate({}, 100), 100); }}.join();
    }
    CHECK(mr.overall().bytes.total == 3200);
    CHECK(mr.overall().blocks.total == 6);
    CHECK(told.count() == 6);
}
