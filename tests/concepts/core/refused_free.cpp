// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/refused_free.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("refused_free: the kind of error follows from the block around the address") {
    char       memory[64];
    auto const kind = [&](void const* p, std::size_t bytes, std::size_t alignment) {
        return refused_free{"test", p, bytes, alignment}.found_live(memory, 64, 256).what.kind;
    };
    CHECK(refused_free{"test", memory, 64, 256}.what.kind == error_kind::foreign_pointer);
    CHECK(refused_free{"test", memory, 64, 256}.found_free().what.kind == error_kind::double_free);
    CHECK(kind(memory + 1, 64, 256) == error_kind::interior_pointer);
    CHECK(kind(memory, 32, 256) == error_kind::wrong_size);
    CHECK(kind(memory, 64, 512) == error_kind::wrong_alignment);
    CHECK(kind(memory, 64, 256) == error_kind::double_free);
}

TEST_CASE(
    "refused_free: a platform that collects mistakes receives the error as well as the sink") {
    static int reported = 0;
    reported            = 0;
    auto const sink     = set_error_sink([](error const&) noexcept { ++reported; });
    sim_node   node{{.on_report = sim_on_report::collect}};
    char       memory[64];
    refused_free{"test", memory, 64, 256}.report<host_platform>();
    CHECK(node.take_reports().empty());
    refused_free{"test", memory, 64, 256}.report<sim_platform>();
    set_error_sink(sink);
    CHECK(node.take_reports().size() == 1);
    CHECK(reported == 2);
    CHECK(collects_refusals<sim_platform>);
    CHECK_FALSE(collects_refusals<host_platform>);
}
