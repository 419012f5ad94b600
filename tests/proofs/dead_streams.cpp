// SPDX-License-Identifier: Apache-2.0
#include "../laws/dead_streams.hpp"

#include "../doubles/page_modes.hpp"
#include "../doubles/resetting.hpp"

#include <vram/vram.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("every pool: a dead raw stream is reported when it matters, and no memory is lost") {
    SUBCASE("pool") {
        laws::dead_streams([](event_policy events) {
            return pool{sim_resource{}, {.max_size = 1_MiB, .events = events}, exact_growth{}};
        });
    }
    SUBCASE("pool over virtual memory") {
        for (doubles::page_mode const mode : doubles::page_modes) {
            laws::dead_streams(
                [=](event_policy events) {
                    return pool{sim_virtual_resource{{.handle_size = 2_MiB}},
                                doubles::in_mode(mode, {.max_size = 2_MiB, .events = events})};
                },
                2_MiB);
        }
    }
    SUBCASE("arena") {
        for (arena_key const key : {arena_key::thread, arena_key::stream}) {
            laws::dead_streams([=](event_policy events) {
                return arena{
                    pool{sim_resource{}, {.max_size = 1_MiB, .events = events}, exact_growth{}},
                    {.count = 1, .key = key, .events = events}};
            });
        }
    }
    SUBCASE("slab") {
        laws::dead_streams([](event_policy events) {
            return slab{sim_resource{}, 1_MiB, {.max_size = 1_MiB, .events = events}};
        });
    }
    SUBCASE("binned") {
        laws::dead_streams([](event_policy events) {
            return binned{sim_resource{} | with::stream_ordered,
                          {.largest = 1_MiB, .max_size = 1_MiB, .events = events}};
        });
    }
    SUBCASE("monotonic") {
        laws::dead_streams([](event_policy events) {
            return doubles::resetting{
                monotonic{sim_resource{}, {.max_size = 1_MiB, .events = events}, exact_growth{}}};
        });
    }
}
