// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/peak_scope.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "every_pool.hpp"

#include <type_traits>

using namespace vram;
using namespace vram::literals;

template class vram::peak_scope<pool<sim_resource>>;

static_assert(!resettable_peaks<host_resource>);

TEST_CASE("peak_scope: it has its own peaks, and the pool's are restored afterwards") {
    tests::for_every_pool([](auto& mr) {
        static_assert(resettable_peaks<std::remove_reference_t<decltype(mr)>>);
        void* blocks[4];
        for (auto& p : blocks) { p = mr.allocate_sync(4_KiB); }
        for (auto* const p : blocks) { mr.deallocate_sync(p, 4_KiB); }
        mr.trim();
        CHECK(mr.usage().reserved == 0);
        std::size_t const most = mr.usage().peak_reserved;
        {
            peak_scope outer{mr};
            CHECK(outer.live() == 0);
            CHECK(outer.reserved() == 0);
            mr.deallocate_sync(mr.allocate_sync(4_KiB), 4_KiB);
            CHECK(outer.live() == 4_KiB);
            {
                peak_scope  inner{mr};
                void* const p = mr.allocate_sync(4_KiB);
                mr.deallocate_sync(mr.allocate_sync(4_KiB), 4_KiB);
                mr.deallocate_sync(p, 4_KiB);
                CHECK(inner.live() == 8_KiB);
            }
            CHECK(outer.live() == 8_KiB);
            CHECK(outer.reserved() == mr.usage().reserved);
            CHECK(outer.reserved() >= 8_KiB);
            {
                peak_scope inner{mr};
                CHECK(inner.live() == 0);
                CHECK(inner.reserved() == mr.usage().reserved);
            }
            CHECK(outer.live() == 8_KiB);
        }
        CHECK(mr.usage().peak_live == 16_KiB);
        CHECK(mr.usage().peak_reserved == most);
        memory_usage const before = mr.reset_peaks();
        CHECK(before.peak_live == 16_KiB);
        CHECK(before.peak_reserved == most);
        CHECK(mr.usage().peak_live == 0);
        CHECK(mr.usage().peak_reserved == mr.usage().reserved);
    });
}

TEST_CASE("peak_scope: memory that is live at its start counts in it") {
    tests::for_every_pool([](auto& mr) {
        void* const p = mr.allocate_sync(4_KiB);
        {
            peak_scope scope{mr};
            CHECK(scope.live() == 4_KiB);
            CHECK(scope.reserved() == mr.usage().reserved);
            mr.deallocate_sync(mr.allocate_sync(4_KiB), 4_KiB);
            CHECK(scope.live() == 8_KiB);
        }
        CHECK(mr.usage().peak_live == 8_KiB);
        mr.deallocate_sync(p, 4_KiB);
    });
}

TEST_CASE(
    "peak_scope: a binned counts blocks as rounded by their classes, and large ones as requested") {
    binned<stream_ordered<host_resource>> mr{{.largest = 64_KiB}};
    mr.deallocate_sync(mr.allocate_sync(5000), 5000);
    CHECK(mr.usage().peak_live == 5_KiB);
    std::size_t const small = mr.usage().reserved;
    {
        peak_scope  scope{mr};
        void* const large = mr.allocate_sync(100'000);
        mr.deallocate_sync(mr.allocate_sync(5000), 5000);
        mr.deallocate_sync(large, 100'000);
        CHECK(scope.live() == 100'000 + 5_KiB);
        CHECK(scope.reserved() == 100'000 + small);
        peak_scope after{mr}; // the large block was freed
        CHECK(after.live() == 0);
        CHECK(after.reserved() == small);
    }
    CHECK(mr.usage().peak_live == 100'000 + 5_KiB);
}
