// SPDX-License-Identifier: Apache-2.0
// Blocks that are live when a pool ends may be in use by streams that the pool has never seen.
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/streams_at_work.hpp"
#include "pools_of_one_chunk.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// `make()` creates a pool. A block of `bytes` is allocated with allocate_sync, and used on a
/// stream that the pool does not know.
template <class Make>
void strangers_are_waited_for(Make make, std::size_t bytes) {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream             stranger;
    {
        auto mr = make();
        doubles::busy(stranger, mr.allocate_sync(bytes), bytes, 5ms);
    }
    CHECK(node.now() >= 5ms);
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(told.count() == 1);
    CHECK(node.figures().used == 0);
    auto const reports = node.reports();
    for (auto const& r : reports) { CHECK_MESSAGE(r.kind == sim_mistake::leak, r.text()); }
    CHECK(reports.size() == 1);
}

} // namespace

TEST_CASE(
    "every pool: the destructor waits for the streams of live blocks, also for unknown streams") {
    proofs::for_pools_of_one_chunk([](std::string const& name, auto make) {
        if (name == "monotonic") { return; } // its live memory is no leak
        for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
            for (bool const graphs : {false, true}) {
                strangers_are_waited_for([&] { return make({.events = events, .graphs = graphs}); },
                                         1_MiB);
            }
        }
    });
}

TEST_CASE("pool over virtual memory: the destructor waits for the streams of live blocks, also for "
          "unknown streams") {
    strangers_are_waited_for([] { return proofs::pool_of_pages({.chunk = 2_MiB}); }, 2_MiB);
}

TEST_CASE("every pool: the destructor waits for the device of live blocks, also if it is not the "
          "current one") {
    auto const elsewhere = [] { return sim_virtual_resource{{}, sim_device{1}}; };
    auto const waits     = [](auto make) {
        doubles::mishaps const told;
        sim_node               node{{.devices = 2, .on_report = sim_on_report::collect}};
        sim_stream             stranger{sim_device{1}};
        {
            auto mr = make();
            doubles::busy(stranger, mr.allocate_sync(1_MiB), 1_MiB, 5ms);
        }
        CHECK(node.now() >= 5ms);
        CHECK(told.count(error_kind::leak) == 1);
        CHECK(told.count() == 1);
        auto const reports = node.reports();
        for (auto const& r : reports) { CHECK_MESSAGE(r.kind == sim_mistake::leak, r.text()); }
        CHECK(reports.size() == 1);
    };
    waits([&] { return pool{elsewhere()}; });
    waits([&] { return arena{elsewhere()}; });
    waits([&] { return slab{elsewhere(), 1_MiB}; });
    waits([&] { return binned{stream_ordered{elsewhere()}}; });
    waits([&] { return binned{stream_ordered{elsewhere()}, {.largest = 4_KiB}}; }); // a large block
}
