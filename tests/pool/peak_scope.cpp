// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/peak_scope.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/slab.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::literals;

static_assert(resettable_peaks<slab<host_resource>> && resettable_peaks<monotonic<host_resource>>);
static_assert(resettable_peaks<binned<stream_ordered<host_resource>>>);
static_assert(!resettable_peaks<host_resource>);

TEST_CASE(
    "peak_scope: a scope has peaks of its own, and the pool's are what they would have been") {
    slab  mr{host_resource{}, 1_KiB};
    void* blocks[4];
    for (auto& p : blocks) { p = mr.allocate_sync(1_KiB); }
    for (auto* const p : blocks) { mr.deallocate_sync(p, 1_KiB); }
    mr.trim();
    {
        peak_scope outer{mr};
        CHECK(outer.live() == 0);
        CHECK(outer.reserved() == 0);
        mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB);
        CHECK(outer.live() == 1_KiB);
        {
            peak_scope  inner{mr};
            void* const p = mr.allocate_sync(1_KiB);
            mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB);
            mr.deallocate_sync(p, 1_KiB);
            CHECK(inner.live() == 2_KiB);
        }
        CHECK(outer.live() == 2_KiB);
        CHECK(outer.reserved() == 64_KiB);
        {
            peak_scope inner{mr};
            CHECK(inner.live() == 0);
        }
        CHECK(outer.live() == 2_KiB);
    }
    CHECK(mr.usage().peak_live == 4_KiB);
    mr.reset_peaks();
    CHECK(mr.usage().peak_live == 0);
    CHECK(mr.usage().peak_reserved == 64_KiB);
}
