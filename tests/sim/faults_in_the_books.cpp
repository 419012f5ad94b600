// SPDX-License-Identifier: Apache-2.0
// The simulated device's own containers run out of host memory at every place in turn: a call that
// fails has no effect, a free takes effect, and the device continues to work.

#include "../doubles/bombing.hpp"

#include <vram/base/error.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <new>

using namespace vram;

namespace {

/// Fails the first, second, ... host allocation of `operation(node)` until it succeeds. After each
/// failure `operation` is called again without one. At the end the device must be in its former
/// state.
template <class Operation>
int walk(Operation operation, std::size_t pool_unit = 0) {
    for (int nth = 1; nth < 400; ++nth) {
        sim_node node{{.pool_unit = pool_unit, .on_report = sim_on_report::collect}};
        bool     failed = false;
        {
            doubles::bombing armed{static_cast<std::size_t>(nth)};
            try {
                operation(node);
            } catch (std::bad_alloc const&) { failed = true; }
        }
        operation(node);
        sim_device{}.synchronize();
        CHECK(node.figures().used == 0);
        node.finish();
        CHECK(node.reports().empty());
        if (!failed) { return nth; }
    }
    return 0;
}

} // namespace

TEST_CASE("sim: a host allocation that fails during a device allocation or free loses nothing") {
    CHECK(walk([](sim_node&) {
              sim_resource memory;
              void* const  p = memory.allocate_sync(1000);
              memory.deallocate_sync(p, 1000);
          }) > 1);
}

TEST_CASE(
    "sim: a host allocation that fails during a stream-ordered allocation or free loses nothing") {
    CHECK(walk([](sim_node&) {
              sim_stream         s;
              sim_async_resource memory;
              void* const        p = memory.allocate(s, 1000);
              memory.deallocate(s, p, 1000);
          }) > 1);
}

TEST_CASE("sim: a host allocation that fails in a pool with units of memory loses nothing") {
    CHECK(walk(
              [](sim_node&) {
                  sim_stream         s, t;
                  sim_async_resource memory{{.initial_size = 1, .release_threshold = 8192}};
                  void* const        p = memory.allocate(s, 3000);
                  void* const        q = memory.try_allocate(t, 5000);
                  memory.deallocate(s, p, 3000);
                  void* const r = memory.try_allocate(s, 9000);
                  memory.deallocate(t, q, 5000);
                  memory.deallocate(s, r, 9000);
                  memory.deallocate(t, memory.try_allocate(t, 20000), 20000);
              },
              4096) > 1);
}

TEST_CASE("sim: a host allocation that fails while work is queued leaves the streams in order") {
    CHECK(walk([](sim_node& node) {
              sim_stream s, t;
              sim_event  e;
              sim_launch(s, {.duration = sim_time{50}});
              e.record(s);
              e.wait(t);
              sim_launch(t, {.duration = sim_time{50}});
              e.record(t);
              e.synchronize();
              CHECK(node.now() >= sim_time{100});
          }) > 1);
}

TEST_CASE("sim: a free that cannot be remembered takes effect all the same") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    for (int i = 0; i < 200; ++i) { // the list of freed blocks grows now and then
        void* const            p = memory.allocate_sync(1000);
        doubles::bombing const armed{1};
        memory.deallocate_sync(p, 1000);
    }
    CHECK(node.figures().used == 0);
    CHECK(node.figures().frees == 200);
    CHECK(node.reports().empty());
}
