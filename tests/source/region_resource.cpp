// SPDX-License-Identifier: Apache-2.0
#include <vram/source/region_resource.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

#include <vram/sim/sim.hpp>

using namespace vram;

template class vram::region_resource<>;

namespace {

alignas(4096) std::byte region[256_KiB];

} // namespace

TEST_CASE("region_resource: it keeps the laws of a resource") {
    laws::source([] { return region_resource{region, sizeof region}; }, {.may_refuse = true});
}

TEST_CASE("region_resource: it accepts addresses that the host cannot access") {
    auto const far = reinterpret_cast<void*>(std::uintptr_t{1} << 46);
    laws::source([&] { return region_resource{far, 80_GiB}; },
                 {.largest_alignment = 2_MiB, .touch = false});
}

TEST_CASE("region_resource: blocks that are freed in reverse order are reusable at once") {
    region_resource mr{region, 1024};
    void* const     p = mr.allocate_sync(512, 1);
    void* const     q = mr.allocate_sync(512, 1);
    CHECK(mr.try_allocate_sync(1, 1) == nullptr);
    mr.deallocate_sync(q, 512, 1);
    CHECK(mr.allocate_sync(512, 1) == q);
    mr.deallocate_sync(q, 512, 1);
    mr.deallocate_sync(p, 512, 1);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().largest_free == 1024);
}

TEST_CASE("region_resource: blocks that are freed in any order are reusable after the last free") {
    region_resource mr{region, 1024};
    void* const     p = mr.allocate_sync(512, 1);
    void* const     q = mr.allocate_sync(512, 1);
    mr.deallocate_sync(p, 512, 1);
    CHECK(mr.try_allocate_sync(512, 1) == nullptr);
    mr.deallocate_sync(q, 512, 1);
    CHECK(mr.allocate_sync(1024, 1) == p);
}

TEST_CASE("region_resource: a refusal has the remaining bytes") {
    region_resource mr{region, 1024};
    (void)mr.allocate_sync(1000, 1);
    try {
        (void)mr.allocate_sync(25, 1);
        FAIL("24 bytes are left");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 25);
        CHECK(e.numbers().live == 1000);
        CHECK(e.numbers().reserved == 1024);
        CHECK(e.numbers().largest_free == 24);
    }
}

TEST_CASE("region_resource: a foreign pointer or a double free is reported and ignored") {
    doubles::mishaps told;
    region_resource  mr{region, 1024};
    int              mine = 0;
    void* const      p    = mr.allocate_sync(100);
    mr.deallocate_sync(&mine, sizeof mine);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    mr.deallocate_sync(p, 2000);
    CHECK(told.count(error_kind::wrong_size) == 1);
    mr.deallocate_sync(p, 100);
    mr.deallocate_sync(p, 100);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(told.last().caller.line() == __LINE__ - 2);
    CHECK(told.pointer() == p);
    CHECK(mr.usage().live == 0);
    CHECK(mr.allocate_sync(1024, 1) == p);
}

TEST_CASE("region_resource: a moved-from region has no memory") {
    region_resource first{region, 1024};
    region_resource second = std::move(first);
    CHECK(first.try_allocate_sync(1) == nullptr);
    CHECK_FALSE(first.owns(region));
    CHECK(second.owns(region));
    auto& itself = second;
    second       = std::move(itself);
    CHECK(second.usage().reserved == 1024);
}

TEST_CASE("region_resource: an empty range is a resource without memory") {
    region_resource mr{nullptr, 0};
    CHECK(mr.try_allocate_sync(1, 1) == nullptr);
    CHECK(mr.allocate_sync(0) == nullptr);
    CHECK_FALSE(mr.owns(nullptr));
}

TEST_CASE(
    "region_resource: a free of a part of the last block is reported, and the block stays live") {
    doubles::mishaps       told;
    alignas(256) std::byte room[1024];
    region_resource<>      mr{room, sizeof room};
    void* const            p = mr.allocate_sync(512);
    mr.deallocate_sync(p, 256);
    CHECK(told.count(error_kind::wrong_size) == 1);
    CHECK(mr.usage().live == 512);
    mr.deallocate_sync(p, 512);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("region_resource: a free with the size 0 is reported and frees nothing") {
    region_resource  mr{region, 1024};
    doubles::mishaps told;
    void* const      p = mr.allocate_sync(256, 1);
    void* const      q = mr.allocate_sync(256, 1);
    mr.deallocate_sync(p, 0, 1);
    CHECK(told.count(error_kind::wrong_size) == 1);
    mr.deallocate_sync(p, 256, 1);
    mr.deallocate_sync(q, 256, 1);
    CHECK(told.count() == 1);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().largest_free == 1024);
}

TEST_CASE("region_resource: on the simulated device, a refused free is a report of the node") {
    sim_node                      node{{.on_report = sim_on_report::collect}};
    doubles::mishaps              told;
    sim_resource                  device;
    void* const                   base = device.allocate_sync(1024);
    region_resource<sim_platform> mr{base, 1024};
    void* const                   p = mr.allocate_sync(256, 1);
    mr.deallocate_sync(region, 256, 1); // foreign pointer
    mr.deallocate_sync(p, 512, 1);      // wrong size
    mr.deallocate_sync(p, 256, 1);
    mr.deallocate_sync(p, 256, 1); // double free
    CHECK(told.count() == 3);
    CHECK(node.reports().size() == 3);
    device.deallocate_sync(base, 1024);
}
