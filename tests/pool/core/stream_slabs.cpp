// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/stream_slabs.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>

using namespace vram;
using namespace vram::detail;
using doubles::keep_busy;
using namespace std::chrono_literals;
using doubles::at;

using sim_slabs = stream_slabs<sim_platform>;
template class vram::detail::stream_slabs<sim_platform>;

namespace {

/// A heap of unused blocks, with the streams' state and the lock.
struct slab_desk {
    slab_heap                   heap{256};
    sim_slabs                   streams;
    platform_lock<sim_platform> lock;

    explicit slab_desk(std::size_t blocks, event_policy events = event_policy::lazy)
        : streams{events, false} {
        heap.add(at(0x100000), blocks * 256, nullptr);
    }
    slab_heap::entry* take(sim_stream const* s) {
        auto                  held = lock.hold();
        sim_stream_view const on   = s != nullptr ? s->view() : sim_stream_view{};
        return streams.take(heap, s != nullptr ? &on : nullptr, held);
    }
    void give(slab_heap::entry* n, sim_stream const* s) {
        auto const            held = lock.hold();
        sim_stream_view const on   = s != nullptr ? s->view() : sim_stream_view{};
        streams.give(heap, n, s != nullptr ? &on : nullptr);
    }
};

} // namespace

TEST_CASE(
    "stream_slabs: own memory is used first, then clean, then completed, then pending memory") {
    sim_node   node{{.compute_slots = 4}};
    slab_desk  desk{3, event_policy::eager};
    sim_stream a, b, c, d;
    auto*      n1 = desk.take(&a);
    auto*      n2 = desk.take(&b);
    keep_busy(a, 50ms);
    keep_busy(b, 1ms);
    desk.give(n1, &a);
    desk.give(n2, &b);
    b.synchronize();
    CHECK(desk.take(&a) == n1);
    desk.give(n1, &a);
    auto* n3 = desk.take(&c);
    CHECK(n3 != n1);
    CHECK(n3 != n2); // clean
    CHECK(desk.take(&c) == n2);
    CHECK(desk.streams.waits() == 0);
    CHECK(desk.take(&c) == n1);
    CHECK(desk.streams.waits() == 1);
    CHECK(desk.take(&c) == nullptr);
    desk.give(n1, nullptr);
    CHECK(desk.take(&d) == n1); // without a pending use
    CHECK(desk.streams.waits() == 1);
}

TEST_CASE(
    "stream_slabs: the host waits with the lock released, and only for the block that it takes") {
    sim_node   node{{.compute_slots = 4}};
    slab_desk  desk{2};
    sim_stream a, b;
    auto*      n1 = desk.take(&a);
    auto*      n2 = desk.take(&b);
    keep_busy(a, 2ms);
    keep_busy(b, 50ms);
    desk.give(n1, &a);
    desk.give(n2, &b);
    CHECK(desk.streams.pending(desk.heap) == 2);
    CHECK(desk.take(nullptr) == n1);
    CHECK(node.now() < 50ms);
    CHECK(desk.streams.pending(desk.heap) == 1);
    CHECK(desk.take(nullptr) == n2);
    CHECK(node.now() >= 50ms);
}

TEST_CASE("stream_slabs: a chunk is idle if no stream uses it") {
    sim_node   node;
    slab_desk  desk{2};
    sim_stream a;
    auto*      n1 = desk.take(&a);
    auto*      n2 = desk.take(&a);
    desk.give(n1, &a);
    auto held = desk.lock.hold();
    CHECK(desk.streams.idle(desk.heap, held) == nullptr);
    keep_busy(a);
    sim_stream_view const on = a;
    desk.streams.give(desk.heap, n2, &on);
    auto* const c = desk.streams.idle(desk.heap, held);
    REQUIRE(c != nullptr);
    CHECK(node.now() >= 1ms);
    desk.heap.remove(c);
    CHECK(desk.streams.idle(desk.heap, held) == nullptr);
}

TEST_CASE("stream_slabs: without host memory the stream is waited for, and the block is clean") {
    sim_node               node;
    doubles::mishaps const told;
    slab_desk              desk{1};
    sim_stream             a;
    auto*                  n = desk.take(nullptr);
    keep_busy(a);
    {
        doubles::bombing armed{1};
        desk.give(n, &a);
    }
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(node.now() >= 1ms);
    CHECK(desk.heap.take_clean() == n);
}

TEST_CASE("stream_slabs: after a failed host wait the block keeps its stream") {
    sim_node   node;
    sim_stream a;
    slab_desk  desk{1};
    desk.give(desk.take(&a), &a);
    keep_busy(a, 5ms);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS((void)desk.take(nullptr));
    CHECK(desk.heap.blocks_free() == 1);
    auto* const n = desk.take(nullptr);
    REQUIRE(n != nullptr);
    desk.give(n, nullptr);
}

TEST_CASE("stream_slabs: a chunk that a captured graph uses is not waited for") {
    sim_node    node;
    sim_stream  a, b;
    slab_desk   desk{2, event_policy::eager};
    auto* const other = desk.take(&b);
    sim_graph::begin(a);
    desk.give(desk.take(&a), &a);
    sim_graph const graph = sim_graph::end(a);
    keep_busy(b, 5ms);
    desk.give(other, &b);
    auto held = desk.lock.hold();
    CHECK(desk.streams.idle(desk.heap, held) == nullptr);
    CHECK(node.now() < 5ms);
}
