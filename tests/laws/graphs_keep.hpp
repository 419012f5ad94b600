// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `graphs_keep` requires that memory of a graph is not reused until captures are forgotten.

#include "../doubles/streams_at_work.hpp" // busy

#include <vram/base/bytes.hpp> // literals
#include <vram/sim/sim.hpp>    // sim_node, sim_stream, sim_graph

#include <doctest/doctest.h>

#include <cstddef> // size_t

namespace laws {

using namespace vram::literals;

/// `make()` creates a pool with capture support and memory for one block of `bytes`. The block is
/// freed in one capture, allocated in a later one, and freed in every possible way.
template <class Make>
void graphs_keep(Make make, std::size_t bytes = 1_MiB) {
    using namespace vram;
    using doubles::busy;
    for (int const how : {0, 1, 2, 3, 4}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other, third;
        auto       mr = make();
        sim_graph::begin(s);
        void* p = mr.allocate(s, bytes);
        mr.deallocate(s, p, bytes);
        sim_graph const first = sim_graph::end(s);
        sim_graph::begin(s);
        p = mr.allocate(s, bytes);
        busy(s, p, bytes);
        sim_graph second = sim_graph::end(s);
        second.launch(s);
        s.synchronize();
        if (how == 0) { mr.deallocate(s, p, bytes); }
        if (how == 1) {
            busy(other, p, bytes);
            mr.deallocate(other, p, bytes);
        }
        if (how == 2) { mr.deallocate_sync(p, bytes); }
        if (how == 3) {
            sim_graph::begin(other);
            mr.deallocate(other, p, bytes); // two graphs use it now
            CHECK(mr.try_allocate(other, bytes) == nullptr);
            (void)sim_graph::end(other);
        }
        if (how != 4) {
            // The first graph may be launched again.
            CHECK(mr.try_allocate(third, bytes) == nullptr);
            CHECK(mr.try_allocate(s, bytes) == nullptr);
            CHECK(mr.try_allocate(other, bytes) == nullptr);
            CHECK(mr.try_allocate_sync(bytes) == nullptr);
            CHECK(mr.trim() == 0);
        }
        mr.forget_captures();
        if (how == 4) { mr.deallocate(s, p, bytes); }
        p = mr.allocate(third, bytes);
        busy(third, p, bytes);
        mr.deallocate(third, p, bytes);
        third.synchronize();
        CHECK(mr.trim() == bytes);
        CHECK(node.reports().empty());
    }
}

} // namespace laws
