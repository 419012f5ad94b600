// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_memory.hpp> // first: the header stands alone

#include <vram/handle/resource_ref.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace remembering {
struct both {
    sim_stream                             copies;
    std::vector<slot<sim_platform>>        slots;
    std::vector<pinned_slot<sim_platform>> pinned;

    both() {
        for (int i = 0; i < 2; ++i) { slots.emplace_back(sim_device::current()); }
        for (int i = 0; i < 3; ++i) { pinned.emplace_back(sim_device::current(), false); }
    }
};
using plain = slot_memory<sim_platform, sim_resource, sim_pinned_resource>;
} // namespace remembering
using remembering::both;

TEST_CASE("slot_memory: it allocates a block for each slot, and frees them") {
    sim_node node;
    both     all;
    {
        remembering::plain memory{sim_resource{}, sim_pinned_resource{}, all.slots, all.pinned,
                                  all.copies};
        CHECK(memory.take(1000, false) == 0);
        for (auto const& s : all.slots) { CHECK(s.memory != nullptr); }
        for (auto const& p : all.pinned) { CHECK(p.memory != nullptr); }
    }
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("slot_memory: blocks allocated before a failure are freed, and pageable memory may "
          "replace pinned") {
    for (bool pageable : {false, true}) {
        sim_node node;
        {
            both               all;
            remembering::plain memory{sim_resource{}, sim_pinned_resource{}, all.slots, all.pinned,
                                      all.copies};
            node.faults().at(sim_call_kind::allocate_host, 2, {.status = sim_status::refused});
            if (pageable) {
                CHECK(memory.take(1000, true) == 1);
                CHECK(all.pinned[1].pageable);
            } else {
                CHECK_THROWS_AS((void)memory.take(1000, false), out_of_memory);
            }
        }
        node.finish();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("slot_memory: too many or too large blocks exceed the limit") {
    using memory = remembering::plain;
    memory::expect_within(5, 100, 500);
    CHECK_THROWS_AS(memory::expect_within(5, 100, 499), over_limit);
    CHECK_THROWS_AS(memory::expect_within(2, unsatisfiable / 2 + 1, unsatisfiable - 1), over_limit);
    memory::expect_within(0, 100, 0);
}

TEST_CASE("slot_memory: a block that no wait covers is not freed, and is reported") {
    sim_node node{{.on_report = sim_on_report::collect}};
    node.set_checks({.leaks = false});
    doubles::mishaps const told;
    {
        both               all;
        sim_stream         user;
        remembering::plain memory{sim_resource{}, sim_pinned_resource{}, all.slots, all.pinned,
                                  all.copies};
        (void)memory.take(1000, false);
        sim_launch(user, {.writes = {{all.slots[0].memory, 1000}}});
        all.slots[0].record_users(user);
        all.slots[1].end_unknown = true;
        node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 100);
    }
    CHECK(told.count(error_kind::leak) == 2);
    node.faults().clear();
    sim_platform::synchronize(sim_device{});
    CHECK(node.reports().empty());
}

TEST_CASE("slot_memory: completion flags that no wait covers are reported with their own size") {
    sim_node node{{.on_report = sim_on_report::collect}};
    node.set_checks({.leaks = false});
    doubles::mishaps const told;
    {
        both               all;
        remembering::plain memory{sim_resource{}, sim_pinned_resource{}, all.slots, all.pinned,
                                  all.copies};
        (void)memory.take(1000, false, 1_MiB);
        REQUIRE(memory.has_flags());
        node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 100);
    }
    CHECK(told.count(error_kind::leak) == 3); // of both device blocks, then of the flags
    CHECK(told.last().kind == error_kind::leak);
    CHECK(told.last().bytes == 3 * 64);
    node.faults().clear();
    CHECK(node.reports().empty());
}
