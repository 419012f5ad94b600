// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/fragmentation.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/slab.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::literals;

TEST_CASE("fragmentation: nothing held is nothing lost") {
    CHECK(fragmentation{memory_usage{}, free_pieces{}} == fragmentation{});
}

TEST_CASE("fragmentation: each figure answers its own question") {
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

TEST_CASE("fragmentation: one free piece is whole, and what was full wasted nothing") {
    memory_usage const u{.reserved = 100, .peak_live = 100, .peak_reserved = 100};
    free_pieces        f{.releasable = 100};
    f.add(100);
    fragmentation const all{u, f};
    CHECK(all.unused == 0);
    CHECK(all.scattered == 0);
    CHECK(all.holes == 1);
    CHECK(all.stranded == 0);
}

TEST_CASE("fragmentation: a slab strands the free blocks of a chunk that is in use") {
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

TEST_CASE("fragmentation: a monotonic can give back what it has not reached") {
    monotonic<host_resource, exact_growth> mr;
    (void)mr.allocate_sync(4_KiB);
    (void)mr.allocate_sync(2_KiB);
    mr.reset();
    CHECK(mr.free_memory().releasable == 6_KiB);
    (void)mr.allocate_sync(1_KiB);
    auto const f = mr.free_memory();
    CHECK(f.bytes == 5_KiB);
    CHECK(f.largest == 3_KiB);
    CHECK(f.releasable == 2_KiB);
    CHECK(mr.trim() == 2_KiB);
}
