// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/pool_search.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

// The ways of a search are tested in pool.cpp, with streams that use freed memory.

using namespace vram;
using namespace vram::detail;
using namespace vram::literals;

using searched_core = pool_core<sim_async_resource, exact_growth>;

TEST_CASE("pool_search: reserved memory is found before the upstream is asked") {
    sim_node                     node;
    sim_stream                   s;
    searched_core                mr{sim_async_resource{}, {.initial_size = 1_MiB}};
    auto const                   asked = mr.usage().upstream;
    auto                         held  = mr.lock_.hold();
    sim_stream_view const        on    = s;
    searched_core::request const r{.asked = 1_MiB, .on = &on};
    void* const                  p = pool_search::take(mr, r, held);
    CHECK(p != nullptr);
    CHECK(pool_search::take(mr, r, held) == nullptr); // does not grow
    CHECK(held.owns_lock());
    void* const q = pool_search::make_room(mr, r, held);
    CHECK(q != nullptr);
    if (held.owns_lock()) { held.unlock(); }
    CHECK(mr.usage().upstream == asked + 1);
    CHECK(mr.try_deallocate(s, p, 1_MiB));
    CHECK(mr.try_deallocate(s, q, 1_MiB));
}

TEST_CASE("pool_search: memory that another stream uses is waited for if the limit forbids growth, "
          "unless the stream is being captured") {
    sim_node      node;
    sim_stream    s, other;
    searched_core mr{sim_async_resource{}, {.initial_size = 1_MiB, .max_size = 1_MiB}};
    void* const   p = mr.allocate(other, 1_MiB);
    doubles::busy(other, p, 1_MiB);
    CHECK(mr.try_deallocate(other, p, 1_MiB));
    sim_stream_view const        on = s;
    searched_core::request const r{.asked = 1_MiB, .on = &on};
    sim_graph::begin(s);
    {
        auto held = mr.lock_.hold();
        CHECK(pool_search::take(mr, r, held) == nullptr);
        CHECK(pool_search::make_room(mr, r, held) == nullptr);
    }
    CHECK_NOTHROW((void)sim_graph::end(s)); // the search has not broken the capture
    auto held = mr.lock_.hold();
    CHECK(pool_search::take(mr, r, held) == p); // the stream is made to wait
    held.unlock();
    CHECK(mr.try_deallocate(s, p, 1_MiB));
}
