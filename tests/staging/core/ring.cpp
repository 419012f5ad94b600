// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/ring.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>

#include "../../doubles/contracts_throw.hpp"
#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace vram;
using namespace vram::detail;

template class vram::detail::ring<sim_platform, sim_pinned_resource>;
template class vram::detail::ring<host_platform, host_resource>;

TEST_CASE("ring: every thread has its own chunks of one block, which is freed") {
    sim_node node;
    {
        ring<sim_platform> const none_yet{sim_device{}, sim_pinned_resource{}, {.threads = 1}};
        ring<sim_platform>       r{sim_device{},
                             sim_pinned_resource{},
                                   {.threads = 3, .chunks = 4, .chunk_bytes = 10'000}};
        CHECK(r.chunk_bytes() == 12'288);
        CHECK(r.pinned_bytes() == 12 * 12'288);
        CHECK(r.threads().size() == 3);
        CHECK(r.where() == sim_device{});
        CHECK_FALSE(r.copies() == sim_stream_view{});
        std::set<std::byte*> seen;
        for (unsigned thread = 0; thread < 3; ++thread) {
            CHECK(r.lane(thread).size() == 4);
            for (auto& c : r.lane(thread)) {
                CHECK(seen.insert(c.memory).second);
                CHECK(is_aligned(c.memory, 4096));
                CHECK_FALSE(c.in_flight);
                CHECK(sim_memory_kind(c.memory) == memory_kind::pinned);
            }
        }
        CHECK(static_cast<std::size_t>(*seen.rbegin() - *seen.begin()) == 11 * 12'288);
    }
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("ring: memory that a copy may still use is not freed, and is reported") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    {
        ring<sim_platform> r{sim_device{}, sim_pinned_resource{}, {.threads = 1}};
        r.leak_memory();
    }
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(told.count() == 1);
    node.finish();
    CHECK(node.take_reports().size() == 1); // the node misses it too
}

TEST_CASE("ring: a ring without chunks, or larger than memory, is a broken contract") {
    doubles::contracts_throw const throws;
    sim_node const                 node;
    auto const                     make = [](staging_options const& o) {
        ring<sim_platform> const r{sim_device{}, sim_pinned_resource{}, o};
    };
    CHECK_THROWS_AS(make({.threads = 1, .chunks = 0}), doubles::broken_contract);
    CHECK_THROWS_AS(make({.threads = 1, .chunk_bytes = 0}), doubles::broken_contract);
    CHECK_THROWS_AS(make({.threads = 2, .chunk_bytes = unsatisfiable / 2}),
                    doubles::broken_contract);
}

TEST_CASE("ring: any failure in its constructor leaves nothing behind") {
    using enum sim_call_kind;
    for (auto const failing : {allocate_host, create_stream, create_event}) {
        for (unsigned n = 1; n <= 7; ++n) {
            CAPTURE(n);
            sim_node node{{.on_report = sim_on_report::collect}};
            node.faults().at(failing, n);
            bool made = true;
            try {
                ring<sim_platform> const r{
                    sim_device{}, sim_pinned_resource{}, {.threads = 3, .chunks = 2}};
            } catch (std::exception const&) { made = false; }
            CHECK(made == (n > (failing == create_event ? 6U : 1U)));
            node.finish();
            CHECK(node.reports().empty());
        }
    }
}
