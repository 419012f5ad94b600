// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_launch.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <span>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim_launch: a kernel computes on device memory through sim_view") {
    sim_node     node;
    sim_resource memory;
    sim_stream   s;
    auto* const  d = static_cast<int*>(memory.allocate_sync(40));
    std::span    all{d, 10};
    sim_fill(s, d, std::byte{0}, 40);
    for (int round = 0; round < 3; ++round) {
        sim_launch(s, {.name = "add", .reads = {all}, .writes = {all}, .duration = 2us}, [=] {
            for (int& x : sim_view(all)) { ++x; }
        });
    }
    int back[10] = {};
    sim_copy(s, back, d, 40);
    CHECK(back[9] == 3);
    CHECK(node.reports().empty());
    memory.deallocate_sync(d, 40);
}

TEST_CASE("sim_launch: a kernel without a callable takes its duration") {
    sim_node   node;
    sim_stream s;
    sim_launch(s, {.duration = 3us});
    s.synchronize();
    CHECK(node.now() == 3us);
}

TEST_CASE("sim_launch: with dereferenceable, the host may access device addresses") {
    sim_node     node{{.dereferenceable = true}};
    sim_resource memory;
    auto* const  d = static_cast<int*>(memory.allocate_sync(4));
    CHECK(sim_view(d) == d);
    *d = 3;
    memory.deallocate_sync(d, 4);
}

TEST_CASE("sim_launch: sim_view returns host addresses unchanged") {
    int local = 4;
    CHECK(sim_view(&local) == &local);
    CHECK(sim_view(static_cast<int*>(nullptr)) == nullptr);
}

TEST_CASE("sim_call_host: the function runs in stream order") {
    sim_node   node;
    sim_stream s;
    int        at = 0;
    sim_launch(s, {.duration = 5us}, [&] { at = 1; });
    sim_call_host(s, [](void* p) { *static_cast<int*>(p) *= 10; }, &at);
    sim_launch(s, {.duration = 5us}, [&] { at += 2; });
    s.synchronize();
    CHECK(at == 12);
}
