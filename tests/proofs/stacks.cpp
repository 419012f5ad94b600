// SPDX-License-Identifier: Apache-2.0
// Tall stacks keep the laws of a single resource, on a device whose checker sees all order.
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pressure/drain.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/region_resource.hpp>

#include "../laws/resource.hpp"

using namespace vram;

TEST_CASE("stacks: every layer in one stack, on the host") {
    laws::resource([](auto up) {
        return std::move(up) | with::statistics | with::aligned(512, aligned_size::rounded_up) |
               with::stream_ordered({.frees_per_event = 2}) | with::limiting(256_KiB) |
               with::retrying(trim_upstream{}, drain{}) | with::locked | with::statistics;
    });
    laws::resource_of_many_threads([](auto up) {
        return std::move(up) | with::locked | with::stream_ordered | with::limiting(64_KiB) |
               with::retrying(trim_upstream{}) | with::statistics;
    });
}

TEST_CASE("stacks: every layer in one stack, on a device") {
    sim_node node{{.on_report = sim_on_report::collect}};
    laws::resource<sim_resource>(
        [](auto up) {
            return std::move(up) | with::statistics | with::aligned(512) | with::stream_ordered |
                   with::limiting(256_KiB) | with::retrying(trim_upstream{}, drain{}) |
                   with::locked;
        },
        {.operations = 1000});
    CHECK(node.reports().empty());
}

TEST_CASE("stacks: two branches, each with a stack of its own") {
    sim_node node{{.on_report = sim_on_report::collect}};
    laws::resource<sim_resource>(
        [](auto up) {
            auto small = sim_resource{} | with::stream_ordered | with::limiting(8_KiB);
            auto large = std::move(up) | with::stream_ordered | with::statistics;
            return std::move(small) | with::fallback(std::move(large)) |
                   with::segregated(sim_resource{} | with::stream_ordered, 2_KiB);
        },
        {.operations = 1000});
    CHECK(node.reports().empty());
}

TEST_CASE("stacks: one large allocation is divided without being accessed") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    void* const whole = sim_resource{}.allocate_sync(1_MiB, 1_MiB);
    {
        using region = region_resource<sim_platform, property_set<device_accessible>>;
        laws::source([&] { return region{whole, 1_MiB} | with::locked | with::stream_ordered; },
                     {.may_refuse = true});
    }
    sim_resource{}.deallocate_sync(whole, 1_MiB);
    CHECK(node.reports().empty());
}
