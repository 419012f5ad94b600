// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_reach.hpp> // first: the header stands alone

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string_view>

using namespace vram;
using namespace vram::detail;

TEST_CASE(
    "sim_reach: the host reaches no device memory, and a kernel that of its device and peers") {
    int const       somewhere = 0;
    sim_range const range{&somewhere, 4};
    sim_block       block;
    block.kind   = sim_kind::device;
    block.device = 1;
    sim_event_of step;
    step.device = 1;
    CHECK_FALSE(sim_reach(step, block, range, false, false));
    step.device = 0;
    CHECK_FALSE(sim_reach(step, block, range, false, true));
    CHECK_FALSE(sim_reach(step, block, range, true, false)); // a copy
    auto const peer = sim_reach(step, block, range, false, false);
    REQUIRE(peer);
    CHECK(peer->kind == sim_mistake::peer_access);
    CHECK(peer->missing == "enable peer access from device 0 to device 1");
    step.host       = true;
    auto const host = sim_reach(step, block, range, false, true);
    REQUIRE(host);
    CHECK(host->kind == sim_mistake::host_access);
    block.kind = sim_kind::pinned;
    CHECK_FALSE(sim_reach(step, block, range, false, false));
}

namespace {
/// Lets a kernel of device 1 access a block of `memory`, on device 0. Returns the report about it.
template <class Memory>
sim_report reach_from_device_1(sim_node& node, Memory memory) {
    sim_stream const s{sim_device{0}}, far{sim_device{1}};
    void* const      p = memory.allocate(s, 1000);
    s.synchronize();
    sim_launch(far, {.name = "far", .reads = {{p, 1000}}});
    far.synchronize();
    memory.deallocate(s, p, 1000);
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::peer_access);
    CHECK(std::string_view{all[0].first.where.file_name()} == __FILE__);
    CHECK(std::string_view{all[0].block.resource} == "pool");
    CHECK(all[0].block.bytes == 1000);
    return all[0];
}
} // namespace

TEST_CASE("sim_reach: the report names the block of the innermost pool") {
    sim_node node{{.devices = 2, .on_report = sim_on_report::collect}};
    (void)reach_from_device_1(node, pool{stream_ordered{sim_resource{}}});
    (void)reach_from_device_1(node, pool{pool{sim_resource{}}});
    sim_report const async = reach_from_device_1(node, pool{sim_async_resource{}});
    CHECK(async.missing == "the pool must allow access from device 1 (allow_access)");
}

TEST_CASE("sim_reach: peer access is no advice for virtual memory") {
    sim_node node{{.devices = 2, .on_report = sim_on_report::collect}};
    sim_device{1}.set_peer_access(sim_device{0}, true);
    CHECK(reach_from_device_1(node, pool{sim_virtual_resource{}}).missing ==
          "no other device has access to this mapping: device 1 needs memory of another resource");
}
