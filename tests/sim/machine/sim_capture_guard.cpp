// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_capture_guard.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../../doubles/collecting.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;
using doubles::status_of;
using doubles::traced;

static_assert(!std::is_move_constructible_v<sim_capture_guard>);

namespace {

/// A call as CUDA's own: nothing makes this thread's mode relaxed for it.
sim_status ask_raw(sim_node& node) {
    return status_of([&] {
        sim_call{node.machine(), sim_call_kind::other, 0, std::source_location::current()}.unsafe();
    });
}

} // namespace

TEST_CASE("sim_capture_guard: within the scope, no capture forbids this thread a call") {
    sim_node   node{traced()};
    sim_stream s;
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only}) {
        sim_graph::begin(s, mode);
        {
            sim_capture_guard const relaxed{node.machine()};
            CHECK(ask_raw(node) == sim_status::ok);
            {
                sim_capture_guard const again{node.machine()};
                CHECK(ask_raw(node) == sim_status::ok);
            }
            CHECK(ask_raw(node) == sim_status::ok);
        }
        CHECK(sim_graph::end(s).size() == 0);

        sim_graph::begin(s, mode);
        CHECK(ask_raw(node) == sim_status::stream_capturing); // and this is why there is a guard
        CHECK(status_of([&] { (void)sim_graph::end(s); }) == sim_status::capture_invalid);
    }
}

TEST_CASE("sim_capture_guard: calls that vram guards on CUDA break no capture here") {
    sim_node             node{traced()};
    sim_stream           s, other;
    sim_event            e;
    sim_resource         memory;
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    sim_async_resource   async;
    sim_virtual_memory   pages;
    auto const           all = [&](auto&... resources) {
        (resources.deallocate_sync(resources.allocate_sync(8), 8), ...);
    };
    for (auto const mode : {sim_capture_mode::global, sim_capture_mode::thread_local_only,
                            sim_capture_mode::relaxed}) {
        sim_graph::begin(s, mode);
        all(memory, pinned, managed, async);
        async.deallocate(other, async.allocate(other, 8), 8);
        async.trim();
        std::size_t const page = pages.granularity();
        auto const        h    = pages.create(page);
        void* const       at   = pages.reserve(page, page);
        pages.map(at, h, page);
        pages.set_access(at, page);
        pages.unmap(at, page);
        pages.release(at, page);
        pages.destroy(h, page);
        e.record(other);
        e.synchronize();
        CHECK(e.done());
        other.synchronize();
        CHECK(other.done());
        CHECK(sim_graph::end(s).size() == 0);
    }
}

TEST_CASE("sim_capture_guard: a call that fails restores the thread's capture mode") {
    sim_node     node{traced()};
    sim_stream   s;
    sim_resource memory;
    node.faults().at(sim_call_kind::allocate, 1);
    CHECK(memory.try_allocate_sync(8) == nullptr);
    sim_graph::begin(s);
    CHECK(ask_raw(node) == sim_status::stream_capturing);
    CHECK(status_of([&] { (void)sim_graph::end(s); }) == sim_status::capture_invalid);
}
