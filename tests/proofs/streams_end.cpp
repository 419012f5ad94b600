// SPDX-License-Identifier: Apache-2.0
#include "../laws/streams_end.hpp"

#include "../doubles/page_modes.hpp"
#include "../doubles/resetting.hpp"

#include <vram/vram.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

/// `test(events)` with each policy.
template <class Test>
void with_each_policy(Test test) {
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        CAPTURE(static_cast<int>(events));
        test(pool_options{.max_size = 2_MiB, .events = events});
    }
}

} // namespace

TEST_CASE("every resource: its streams may end first, in any order and with unfinished work") {
    SUBCASE("pool") {
        with_each_policy([](pool_options o) {
            laws::streams_end([&] { return pool{sim_resource{}, o, exact_growth{}}; });
            laws::streams_end([&] {
                return pool{stream_ordered{sim_resource{}, {.frees_per_event = 4}}, o,
                            exact_growth{}};
            });
            laws::streams_end([&] {
                return statistics{limiting{pool{sim_resource{}, o, exact_growth{}}, 2_MiB}};
            });
        });
    }
    SUBCASE("pool over virtual memory") {
        with_each_policy([](pool_options o) {
            o.max_size = 4_MiB;
            for (doubles::page_mode const mode : doubles::page_modes) {
                laws::streams_end(
                    [&] {
                        return pool{sim_virtual_resource{{.handle_size = 2_MiB}},
                                    doubles::in_mode(mode, o)};
                    },
                    2_MiB);
            }
        });
    }
    SUBCASE("arena") {
        with_each_policy([](pool_options o) {
            for (arena_key const key : {arena_key::thread, arena_key::stream}) {
                laws::streams_end([&] {
                    return arena{pool{sim_resource{}, o, exact_growth{}},
                                 {.count = 1, .key = key, .events = o.events}};
                });
            }
        });
    }
    SUBCASE("slab") {
        with_each_policy([](pool_options o) {
            laws::streams_end([&] { return slab{sim_resource{}, 1_MiB, o}; });
        });
    }
    SUBCASE("binned") {
        with_each_policy([](pool_options o) {
            laws::streams_end([&] {
                return binned{sim_resource{} | with::stream_ordered,
                              {.largest = 1_MiB, .max_size = 2_MiB, .events = o.events}};
            });
        });
    }
    SUBCASE("monotonic") {
        with_each_policy([](pool_options o) {
            laws::streams_end(
                [&] { return doubles::resetting{monotonic{sim_resource{}, o, exact_growth{}}}; });
        });
    }
    SUBCASE("stream_ordered") {
        laws::streams_end([] { return stream_ordered{sim_resource{}}; });
        laws::streams_end([] { return stream_ordered{sim_resource{}, {.frees_per_event = 4}}; });
    }
    SUBCASE("memory of the driver's") {
        laws::streams_end([] { return sim_async_resource{}; });
    }
}
