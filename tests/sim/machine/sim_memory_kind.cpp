// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_memory_kind.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_memory_kind: each kind is recognised, and unknown memory is pageable") {
    sim_node             node;
    sim_resource         device;
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    sim_async_resource   pool;
    sim_stream           stream;
    void* const          d = device.allocate_sync(100);
    void* const          p = pinned.allocate_sync(100);
    void* const          m = managed.allocate_sync(100);
    void* const          a = pool.allocate(stream, 100);
    CHECK(sim_memory_kind(d) == memory_kind::device);
    CHECK(sim_memory_kind(a) == memory_kind::device);
    CHECK(sim_memory_kind(p) == memory_kind::pinned);
    CHECK(sim_memory_kind(m) == memory_kind::managed);
    std::vector<char> plain(100);
    CHECK(sim_memory_kind(plain.data()) == memory_kind::pageable);
    CHECK(sim_memory_kind(nullptr) == memory_kind::pageable);
    {
        sim_register const now{{plain.data(), 50}};
        CHECK(sim_memory_kind(plain.data() + 49) == memory_kind::pinned);
        CHECK(sim_memory_kind(plain.data() + 50) == memory_kind::pageable);
    }
    CHECK(sim_memory_kind(plain.data()) == memory_kind::pageable);
    pool.deallocate(stream, a, 100);
    managed.deallocate_sync(m, 100);
    pinned.deallocate_sync(p, 100);
    device.deallocate_sync(d, 100);
}
