// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_copier.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace copying_slots {
/// One pinned slot and two on the device, filled by hand.
struct slot_copier_by_hand final : slot_copier<sim_platform> {
    using copier = slot_copier<sim_platform>;

    explicit slot_copier_by_hand(loader_options o = {})
        : slot_copier{(o.batch_bytes = 1000, o.pinned_depth = 1, o.device_depth = 2, o),
                      sim_device::current(), std::nullopt} {
        for (auto& p : pinned_) { p.memory = static_cast<std::byte*>(host.allocate_sync(1000)); }
        for (auto& s : slots_) { s.memory = static_cast<std::byte*>(memory.allocate_sync(1000)); }
    }
    ~slot_copier_by_hand() {
        CHECK(channel_.drain(false));
        sim_platform::synchronize(sim_device{});
        for (auto& p : pinned_) { host.deallocate_sync(p.memory, 1000); }
        for (auto& s : slots_) { memory.deallocate_sync(s.memory, 1000); }
    }
    void produce_inline() override {}
    void fill() {
        pinned* const p = await_pinned();
        REQUIRE(p != nullptr);
        clear(*p);
        sim_touch({p->memory, 1000}, sim_access::write);
        p->size = 1000;
        filled(*p, 0);
    }

    sim_resource        memory;
    sim_pinned_resource host;
};
} // namespace copying_slots
using copying_slots::slot_copier_by_hand;

TEST_CASE("slot_copier: the end of a copy calls back, and the slot can be filled again") {
    sim_node   node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    sim_stream stream;
    {
        slot_copier_by_hand ring;
        ring.fill();
        CHECK(ring.states() == slot_states{.copying = 1, .unused = 1, .ready = 1});
        auto* const s = ring.take(stream);
        sim_platform::synchronize(sim_device{}); // the copy is over, and its call-back came
        CHECK(ring.states().empty == 1);
        CHECK(node.now() == 1us);
        ring.fill(); // the checker would see a write beside the copy
        ring.release(*s, stream);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("slot_copier: without callbacks, the next fill waits for the event") {
    sim_node   node;
    sim_stream stream;
    {
        slot_copier_by_hand    ring;
        doubles::mishaps const errors;
        node.faults().at(sim_call_kind::launch, 1, {.status = sim_status::refused});
        ring.fill();
        CHECK(errors.count() == 1);
        CHECK(ring.states().empty == 1); // though the copy is not over
        ring.fill();
        CHECK(ring.statistics().host_waits == 1);
    }
    CHECK(node.reports().empty());
}
