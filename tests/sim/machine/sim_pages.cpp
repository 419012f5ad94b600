// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_pages.hpp> // first: the header must stand alone

#include "../../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_pages: a page size that no system could map is a broken contract") {
    doubles::contracts_throw const throws;
    for (std::size_t const page : {0, 512, 12288}) {
        sim_machine m{{.capacity = 8_MiB, .page = page}};
        sim_call    call{m, sim_call_kind::other, 0, std::source_location::current()};
        CHECK_THROWS_AS(sim_pages{call}, doubles::broken_contract);
    }
}

TEST_CASE("sim_pages: physical memory is counted when created and when destroyed") {
    sim_machine         m{{.capacity = 8_MiB, .on_report = sim_on_report::collect}};
    sim_call            call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_pages           pages{call};
    void* const         p    = pages.reserve(0, 8_MiB, 4_MiB);
    std::uint64_t const page = pages.create(0, 4_MiB);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 4_MiB == 0);
    CHECK(m.memory.reservations.size() == 1);
    CHECK(m.at(0).used == 4_MiB);
    CHECK(pages.create(0, 6_MiB) == 0); // there is no room
    CHECK(m.at(0).used == 4_MiB);
    pages.map(p, page, 4_MiB);
    pages.set_access(p, 4_MiB);
    CHECK(m.memory.physical.at(page).mappings == 1);
    int device = -1;
    CHECK(m.memory.kind_of(reinterpret_cast<std::uintptr_t>(p), device) == sim_kind::device);
    CHECK(device == 0);
    pages.unmap(p, 4_MiB);
    pages.destroy(page);
    pages.release(p, 8_MiB);
    CHECK(m.at(0).used == 0);
    CHECK(m.memory.physical.empty());
    CHECK(m.memory.reservations.empty());
    CHECK(m.checker.reports().empty());
}
