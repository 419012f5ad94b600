// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/copy_lane.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::detail::copy_lane<sim_platform>;
template class vram::detail::copy_lane<host_platform>;

TEST_CASE("copy_lane: a callback follows its event, and does not delay the next copy") {
    sim_node                node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
    copy_lane<sim_platform> lane{sim_device::current()};
    sim_resource            memory;
    sim_pinned_resource     pinned;
    void* const             to   = memory.allocate_sync(1000);
    void* const             from = pinned.allocate_sync(1000);
    sim_event               over;
    static sim_time         told;
    told = {};
    sim_platform::copy(lane.view(), to, from, 1000);
    over.record(lane.view());
    lane.call_after(over, [](void* node_) { told = static_cast<sim_node*>(node_)->now(); }, &node);
    sim_platform::copy(lane.view(), to, from, 1000);
    CHECK(lane.drain());
    CHECK(told == 1us);
    lane.view().synchronize();
    CHECK(node.now() == 2us);
    memory.deallocate_sync(to, 1000);
    pinned.deallocate_sync(from, 1000);
}

TEST_CASE("copy_lane: it may use a stream of the caller") {
    sim_node                      node;
    sim_stream                    mine;
    copy_lane<sim_platform> const lane{sim_device::current(), mine.view()};
    CHECK(lane.view() == mine.view());
    copy_lane<sim_platform> const other{sim_device::current()};
    CHECK(other.view() != mine.view());
}

TEST_CASE("copy_lane: if no wait guarantees that all callbacks ran, it reports that") {
    sim_node                node;
    copy_lane<sim_platform> lane{sim_device::current()};
    doubles::mishaps const  told;
    node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused});
    CHECK(lane.drain()); // the whole device was waited for
    CHECK(told.count() == 1);
    node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 2);
    CHECK_FALSE(lane.drain());
}
