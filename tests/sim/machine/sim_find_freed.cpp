// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_find_freed.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_heap.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_find_freed: a free names a live block of its kind, else the mistake is reported") {
    sim_machine m{{}};
    sim_call    call{m, sim_call_kind::other, 0, std::source_location::current()};
    void* const p    = sim_heap{call}.allocate(sim_kind::device, 0, 1024, 256);
    auto const  step = [&] { return call.host_step("free"); };
    CHECK(sim_find_freed(m, sim_kind::device, 0, p, 1024, step()) != nullptr);
    CHECK(m.checker.reports().empty());
    CHECK(sim_find_freed(m, sim_kind::device, 0, p, 512, step()) != nullptr); // and a wrong size
    CHECK(m.checker.reports().back().kind == sim_mistake::wrong_size);
    void* const inside = static_cast<std::byte*>(p) + 256;
    CHECK(sim_find_freed(m, sim_kind::device, 0, inside, 256, step()) == nullptr);
    CHECK(m.checker.reports().back().kind == sim_mistake::foreign_free);
    CHECK(sim_heap{call}.free(sim_kind::device, 0, p, 1024));
}
