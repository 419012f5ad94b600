// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_memory.hpp> // first: the header must stand alone

#include <vram/sim/machine/sim_register.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_memory: every address has a kind and an owner") {
    sim_memory       m{{.devices = 2, .capacity = 1_MiB, .pinned_capacity = 1_MiB}};
    int              local = 0, device = -1;
    auto const       here = reinterpret_cast<std::uintptr_t>(&local);
    sim_block* const one  = m.space(sim_kind::device, 1).insert(64, 64);
    sim_block* const pin  = m.space(sim_kind::pinned, 0).insert(64, 64);
    sim_block* const both = m.space(sim_kind::managed, 0).insert(64, 64);
    CHECK(m.kind_of(one->begin, device) == sim_kind::device);
    CHECK(device == 1);
    CHECK(m.kind_of(pin->begin, device) == sim_kind::pinned);
    CHECK(m.kind_of(both->begin, device) == sim_kind::managed);
    CHECK(m.kind_of(here, device) == sim_kind::pageable);
    CHECK(m.space_of(here) == nullptr);
    m.space(sim_kind::registered, 0).insert_at(here, sizeof local)->kind = sim_kind::registered;
    CHECK(m.kind_of(here, device) == sim_kind::registered);
    CHECK(m.space_of(here) != nullptr);
    CHECK(m.view(here) == here);
    CHECK(m.view(one->begin) != one->begin);
    int blocks = 0;
    m.for_each([&](sim_block const&) { ++blocks; });
    CHECK(blocks == 4);
}

TEST_CASE("sim_memory: unbacked device memory has no view, and host memory always has one") {
    sim_memory m{{.capacity = 160_GiB, .backed = false}};
    CHECK(m.view(m.space(sim_kind::device, 0).insert(64, 64)->begin) == 0);
    auto const pin = m.space(sim_kind::pinned, 0).insert(64, 64)->begin;
    CHECK(m.view(pin) == pin);
}

TEST_CASE("sim_memory: take_alike divides a range at the ends of registered ranges") {
    sim_node                         node;
    std::vector<std::byte>           v(1000);
    vram::detail::sim_register const a{{v.data() + 100, 100}}, b{{v.data() + 200, 50}};
    vram::sim_range                  rest{v.data(), v.size()};
    std::vector<std::size_t>         sizes;
    while (rest.bytes != 0) { sizes.push_back(node.machine().memory.take_alike(rest).bytes); }
    CHECK(sizes == std::vector<std::size_t>{100, 100, 50, 750});
    rest = {v.data() + 150, 20};
    CHECK(node.machine().memory.take_alike(rest).bytes == 20);
    CHECK(rest.bytes == 0);
}
