// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_reach.hpp> // first: the header stands alone

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <vector>

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
    CHECK_FALSE(sim_reach(step, block, range, sim_copy_kind::none, false));
    step.device = 0;
    CHECK_FALSE(sim_reach(step, block, range, sim_copy_kind::none, true));
    CHECK_FALSE(sim_reach(step, block, range, sim_copy_kind::copy, false));
    CHECK(sim_reach(step, block, range, sim_copy_kind::fill, false));
    auto const peer = sim_reach(step, block, range, sim_copy_kind::none, false);
    REQUIRE(peer);
    CHECK(peer->kind == sim_mistake::peer_access);
    CHECK(peer->missing == "enable peer access from device 0 to device 1");
    step.host       = true;
    auto const host = sim_reach(step, block, range, sim_copy_kind::none, true);
    REQUIRE(host);
    CHECK(host->kind == sim_mistake::host_access);
    block.kind = sim_kind::pinned;
    CHECK_FALSE(sim_reach(step, block, range, sim_copy_kind::none, false));
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

TEST_CASE("sim_reach: copies of memory of another device, as measured on two H100") {
    sim_node         node{{.devices = 2, .on_report = sim_on_report::collect}};
    sim_device const here{0}, there{1};
    sim_stream const s{here}, far{there};
    sim_resource     local;
    void* const      q = local.allocate_sync(1000);

    // Each row tells what a stream of device 0 may do with `p`, memory of device 1.
    auto const expect = [&](void* p, bool copies, bool fills) {
        sim_fill(far, p, std::byte{1}, 1000);
        sim_fill(s, q, std::byte{1}, 1000);
        there.synchronize();
        here.synchronize();
        auto const ok = [&](auto const& queue) {
            queue();
            here.synchronize();
            there.synchronize();
            auto const reports = node.take_reports();
            for (sim_report const& r : reports) { CHECK(r.kind == sim_mistake::peer_access); }
            return reports.empty();
        };
        CHECK(ok([&] { sim_copy(s, q, p, 1000); }) == copies);
        CHECK(ok([&] { sim_copy(s, p, q, 1000); }) == copies);
        CHECK(ok([&] { sim_fill(s, p, std::byte{2}, 1000); }) == fills);
        CHECK(ok([&] { sim_copy(s, q, here, p, there, 1000); }));
        CHECK(ok([&] { sim_copy(s, p, there, q, here, 1000); }));
        CHECK(ok([&] { sim_copy(far, p, q, 1000); }));
        CHECK(ok([&] { sim_copy(far, q, p, 1000); }));
        // `cuda_copy` tries the current device, and that of the stream.
        there.make_current();
        CHECK(ok([&] { sim_copy(s, q, p, 1000); }));
        here.make_current();
        sim_graph::begin(far);
        sim_copy(far, q, p, 1000);
        sim_fill(far, p, std::byte{3}, 1000);
        sim_graph const graph = sim_graph::end(far);
        CHECK(ok([&] { graph.launch(s); })); // the nodes stay on the device of their capture
    };
    sim_resource plain{there};
    void* const  p = plain.allocate_sync(1000);
    expect(p, true, false);
    here.set_peer_access(there, true);
    expect(p, true, true);
    plain.deallocate_sync(p, 1000);

    sim_async_resource pooled{there};
    void* const        r = pooled.allocate_sync(1000);
    expect(r, false, false); // peer access does not hold for memory of pools
    pooled.allow_access(here);
    expect(r, true, true);
    pooled.deallocate_sync(r, 1000);

    std::vector<std::byte> pageable(1000);
    CHECK(doubles::status_of([&] { sim_copy(s, q, here, pageable.data(), here, 1000); }) ==
          sim_status::invalid_value);

    sim_virtual_resource mapped{virtual_options{}, there};
    void* const          v = mapped.allocate_sync(1000);
    expect(v, false, false);
    mapped.deallocate_sync(v, 1000);
    local.deallocate_sync(q, 1000);
}
