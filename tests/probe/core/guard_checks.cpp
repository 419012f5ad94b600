// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/guard_checks.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("guard_checks: more checks than slots, of which the last one fails") {
    sim_node const                     node;
    doubles::mishaps const             errors;
    sim_stream                         s;
    sim_resource                       memory;
    detail::guard_checks<sim_platform> checks{16};
    auto* const all = static_cast<std::byte*>(memory.allocate_sync(200 * 64));
    sim_platform::fill(s, all, detail::guard_checks<sim_platform>::fence_byte, 200 * 64);
    for (int i = 0; i != 200; ++i) {
        std::byte* const p = all + i * 64 + 16;
        if (i == 199) { sim_platform::fill(s, p + 32, std::byte{0}, 1); }
        checks.copy_fences(s, {.p = p, .bytes = 32, .alignment = 1});
    }
    checks.compare_ready();
    checks.compare_all();
    CHECK(errors.count() == 1);
    CHECK(errors.pointer() == all + 199 * 64 + 16 + 32);
    checks.compare_now(s, all, 64, std::byte{1}, {.p = all, .bytes = 64});
    CHECK(errors.count() == 2);
    CHECK(errors.pointer() == all);
    memory.deallocate_sync(all, 200 * 64);
}

TEST_CASE("guard_checks: copies are not compared if the wait for them fails") {
    sim_node                           node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const             errors;
    sim_stream                         s;
    sim_resource                       memory;
    detail::guard_checks<sim_platform> checks{16};
    auto* const                        all = static_cast<std::byte*>(memory.allocate_sync(64));
    sim_platform::fill(s, all, detail::guard_checks<sim_platform>::fence_byte, 64);
    checks.copy_fences(s, {.p = all + 16, .bytes = 32, .alignment = 1});
    node.faults().at(sim_call_kind::synchronize, 1);
    checks.compare_all();
    CHECK(errors.count(error_kind::overrun) == 0);
    CHECK(errors.count() == 1);

    // The pinned memory of that check is not used again, because its copies may be pending.
    sim_stream const other;
    s.synchronize();
    sim_launch(s, {.name = "use", .duration = sim_time{90'000}});
    checks.copy_fences(s, {.p = all + 16, .bytes = 32, .alignment = 1});
    node.faults().at(sim_call_kind::synchronize, 1);
    checks.compare_all();
    CHECK(errors.count() == 2);
    checks.compare_now(other, all, 16, detail::guard_checks<sim_platform>::fence_byte, {.p = all});
    CHECK(errors.count() == 2);
    s.synchronize();
    CHECK(node.reports().empty());

    // The second copy fails while the first one waits in the stream.
    node.faults().at(sim_call_kind::copy, 2);
    std::uint64_t const waits = node.faults().calls(sim_call_kind::synchronize);
    checks.copy_fences(s, {.p = all + 16, .bytes = 32, .alignment = 1});
    CHECK(errors.count() == 3);
    CHECK(node.faults().calls(sim_call_kind::synchronize) > waits);
    checks.compare_now(s, all, 64, detail::guard_checks<sim_platform>::fence_byte, {.p = all});
    CHECK(errors.count() == 3);
    memory.deallocate_sync(all, 64);
}
