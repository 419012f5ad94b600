// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/fragmentation.hpp> // first: the header stands alone

#include <vram/pool/exact_growth.hpp>

#include "every_pool.hpp"

using namespace vram;
using namespace vram::literals;

TEST_CASE("fragmentation: without reserved memory every value is zero") {
    CHECK(fragmentation{memory_usage{}, free_pieces{}} == fragmentation{});
}

TEST_CASE("fragmentation: each value has its own definition") {
    memory_usage const u{
        .live = 600, .requested = 500, .reserved = 1000, .peak_live = 750, .peak_reserved = 1000};
    free_pieces f{.releasable = 100};
    f.add(100, 2);
    f.add(200);
    fragmentation const all{u, f};
    CHECK(all.unused == doctest::Approx(0.25));
    CHECK(all.scattered == doctest::Approx(0.5));
    CHECK(all.holes == doctest::Approx(0.06));
    CHECK(all.stranded == 300);
    CHECK(all.rounding == 100);
}

TEST_CASE("fragmentation: one free block is not fragmented, and a full pool wastes nothing") {
    memory_usage const u{.reserved = 100, .peak_live = 100, .peak_reserved = 100};
    free_pieces        f{.releasable = 100};
    f.add(100);
    fragmentation const all{u, f};
    CHECK(all.unused == 0);
    CHECK(all.scattered == 0);
    CHECK(all.holes == 1);
    CHECK(all.stranded == 0);
}

TEST_CASE("fragmentation: for every pool the values agree with its reserved and trimmed bytes") {
    tests::for_every_pool([](auto& mr) {
        // A monotonic reuses no single block: see below.
        if constexpr (requires { mr.reset_sync(); }) { return; }
        CHECK(mr.free_memory() == free_pieces{});
        CHECK(fragmentation{mr.usage(), mr.free_memory()} == fragmentation{});
        void* const first  = mr.allocate_sync(4000);
        void* const second = mr.allocate_sync(4_KiB);
        mr.deallocate_sync(second, 4_KiB);
        memory_usage const  now = mr.usage();
        free_pieces const   f   = mr.free_memory();
        fragmentation const all{now, f};
        CHECK(now.live >= 4000);
        CHECK(f.bytes == now.reserved - 4_KiB);
        CHECK(f.largest >= 4_KiB);
        CHECK(f.largest <= f.bytes);
        CHECK(f.releasable <= f.bytes);
        std::size_t count = 0;
        for (std::size_t const n : f.by_size) { count += n; }
        CHECK(f.count == count);
        auto const held = static_cast<double>(now.reserved);
        CHECK(all.rounding == now.live - 4000);
        CHECK(all.unused == doctest::Approx(1 - static_cast<double>(now.peak_live) / held));
        CHECK(all.holes == doctest::Approx(f.squares / (held * held)));
        CHECK(all.stranded == f.bytes - f.releasable);
        CHECK(mr.trim() == f.releasable);
        CHECK(mr.free_memory().releasable == 0);
        CHECK(fragmentation{mr.usage(), mr.free_memory()}.stranded == all.stranded);
        mr.deallocate_sync(first, 4000);
        free_pieces const left = mr.free_memory();
        CHECK(left.releasable == left.bytes);
        CHECK(left.bytes == mr.usage().reserved);
        CHECK(fragmentation{mr.usage(), left}.stranded == 0);
        CHECK(mr.trim() == left.bytes);
        CHECK(mr.free_memory() == free_pieces{});
    });
}

TEST_CASE(
    "fragmentation: free memory of a binned is scattered by class, and large blocks leave none") {
    binned<stream_ordered<host_resource>> mr{{.largest = 64_KiB}};
    void* const                           small  = mr.allocate_sync(1000);
    void* const                           medium = mr.allocate_sync(40'000);
    void* const                           large  = mr.allocate_sync(100'000);
    mr.deallocate_sync(medium, 40'000);
    std::size_t const held    = mr.usage().reserved - 100'000; // in slabs
    free_pieces const f       = mr.free_memory();
    std::size_t const mediums = f.by_size[15]; // 40 KiB each
    std::size_t const smalls  = f.by_size[10]; // 1 KiB each
    CHECK(mediums >= 1);
    CHECK(f.count == mediums + smalls);
    CHECK(f.bytes == mediums * 40_KiB + smalls * 1_KiB);
    CHECK(f.bytes == held - 1_KiB);
    CHECK(f.largest == 40_KiB);
    CHECK(f.releasable == mediums * 40_KiB);
    fragmentation const all{mr.usage(), f};
    CHECK(all.scattered == doctest::Approx(1 - 40.0 * 1024 / static_cast<double>(f.bytes)));
    CHECK(all.stranded == smalls * 1_KiB);
    CHECK(all.rounding == 24);
    mr.deallocate_sync(large, 100'000);
    CHECK(mr.free_memory() == f);
    mr.deallocate_sync(small, 1000);
    CHECK(mr.free_memory().releasable == held);
}

TEST_CASE("fragmentation: free blocks of a used slab chunk cannot be trimmed") {
    slab        mr{host_resource{}, 1_KiB, {.initial_size = 16_KiB}};
    void* const p = mr.allocate_sync(1000);
    auto const  f = mr.free_memory();
    CHECK(f.count == 15);
    CHECK(f.bytes == 15_KiB);
    CHECK(f.largest == 1_KiB);
    CHECK(f.releasable == 0);
    fragmentation const all{mr.usage(), f};
    CHECK(all.stranded == 15_KiB);
    CHECK(all.rounding == 24);
    CHECK(all.unused == doctest::Approx(15.0 / 16));
    mr.deallocate_sync(p, 1000);
    CHECK(mr.free_memory().releasable == 16_KiB);
    CHECK(mr.trim() == 16_KiB);
}

TEST_CASE("fragmentation: a monotonic can trim the chunks that it has not reached") {
    monotonic<host_resource, exact_growth> mr;
    (void)mr.allocate_sync(4_KiB);
    (void)mr.allocate_sync(2_KiB);
    mr.reset_sync();
    CHECK(mr.free_memory().releasable == 6_KiB);
    (void)mr.allocate_sync(1_KiB);
    auto const f = mr.free_memory();
    CHECK(f.bytes == 5_KiB);
    CHECK(f.largest == 3_KiB);
    CHECK(f.releasable == 2_KiB);
    fragmentation const all{mr.usage(), f};
    CHECK(all.rounding == 0);
    CHECK(all.unused == 0); // 6 KiB were live at the peak
    CHECK(all.stranded == 3_KiB);
    CHECK(mr.trim() == 2_KiB);
}
