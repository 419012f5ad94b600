// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_heap.hpp> // first: the header must stand alone

#include <vram/base/error.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_heap: allocations and frees are counted") {
    sim_machine m{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    sim_call    call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_heap    heap{call};
    void* const p = heap.allocate(sim_kind::device, 0, 100, 256);
    void* const q = heap.allocate(sim_kind::pinned, 0, 100, 256);
    CHECK(m.at(0).used == 512); // pinned memory is the host's
    CHECK(heap.allocate(sim_kind::device, 0, 1_MiB, 256) == nullptr);
    CHECK(m.at(0).used == 512);
    CHECK(heap.free(sim_kind::device, 0, p, 100));
    CHECK_FALSE(heap.free(sim_kind::device, 0, q, 100));
    CHECK(heap.free(sim_kind::pinned, 0, q, 100));
    CHECK(m.at(0).used == 0);
    CHECK(m.checker.reports().size() == 1);
}

TEST_CASE("sim_heap: the bytes of a pool are live, pending or free") {
    sim_machine       m{{.capacity = 1_MiB}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_heap          heap{call};
    sim_stream_state& s    = m.make_stream(*call.host, 0, false);
    auto const        pool = std::make_shared<sim_pool>();
    pool->threshold        = unsatisfiable;
    void* const a          = heap.allocate(*pool, s, 1000, 256);
    void* const b          = heap.allocate(*pool, s, 2000, 256);
    CHECK(pool->reserved == 3072);
    CHECK(heap.free(pool, s, a, 1000));
    CHECK(pool->live == 2048);
    CHECK(pool->pending_bytes == 1024);
    sim_wait{call}.synchronize(s);
    CHECK(pool->pending_bytes == 0);
    CHECK(pool->reserved == 3072);
    void* const c = heap.allocate(*pool, s, 1024, 256); // free memory of the pool
    CHECK(pool->reserved == 3072);
    CHECK(heap.free(pool, s, b, 2000));
    CHECK(heap.free(pool, s, c, 1024));
    sim_wait{call}.synchronize(s);
    CHECK(sim_room::trim(m, *pool, 0) == 3072);
    CHECK(m.at(0).used == 0);
}

TEST_CASE("sim_heap: a block that is freed to another pool is reported, and stays live") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_async_resource mine, other;
    sim_stream const   stream;
    void* const        p    = mine.allocate(stream, 4096);
    auto const         sink = set_error_sink([](error const&) noexcept {});
    other.deallocate(stream, p, 4096);
    set_error_sink(sink);
    auto const reports = node.take_reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports.front().kind == sim_mistake::foreign_free);
    CHECK(mine.usage().live == 4096);
    CHECK(other.usage().live == 0);
    mine.deallocate(stream, p, 4096);
    stream.synchronize();
    CHECK(mine.usage().live == 0);
    CHECK(node.reports().empty());
}
