// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("every pool: host waits for a stream or a device are counted if there is no event") {
    proofs::for_pools_over_any([](std::string const&, auto make) {
        for (bool const died : {false, true}) {
            CAPTURE(died);
            doubles::mishaps const    told;
            sim_node                  node{{.on_report = sim_on_report::collect}};
            sim_stream                other;
            auto                      mr = make(sim_async_resource{}, {});
            std::optional<sim_stream> s{doubles::raw_stream()};
            void*                     p = mr.allocate(*s, 1_MiB);
            doubles::busy(*s, p, 1_MiB, 5ms);
            mr.deallocate(*s, p, 1_MiB);
            CHECK(mr.usage().waits == 0);
            if (died) {
                s.reset();
            } else {
                node.faults().at(sim_call_kind::create_event, 1);
            }
            p = mr.allocate(other, 1_MiB);
            CHECK(mr.usage().waits == 1);
            CHECK(node.figures().host_waits == (died ? 1 : 0)); // else a stream waits for the other
            CHECK(told.count(died ? error_kind::dead_stream : error_kind::platform_error) == 1);
            mr.deallocate(other, p, 1_MiB);
            CHECK(node.reports().empty());
        }
    });
}
