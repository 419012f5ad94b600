// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `graphs_keep` demands that what a graph uses is nobody else's until captures are forgotten.

#include "../doubles/streams_at_work.hpp" // busy

#include <vram/base/bytes.hpp> // literals
#include <vram/sim/sim.hpp>    // sim_node, sim_stream, sim_graph

#include <doctest/doctest.h>

namespace laws {

/// `make()` makes a pool that looks for captures, has one block of 1 MiB, and can have no more. The
/// block is given back in one capture, taken in a later one, and comes back in every way there is.
template <class Make>
void graphs_keep(Make make) {
    using namespace vram;
    using doubles::busy;
    for (int const how : {0, 1, 2, 3, 4}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other, third;
        auto       mr = make();
        sim_graph::begin(s);
        void* p = mr.allocate(s, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
        sim_graph const first = sim_graph::end(s);
        sim_graph::begin(s);
        p = mr.allocate(s, 1_MiB);
        busy(s, p, 1_MiB);
        sim_graph second = sim_graph::end(s);
        second.launch(s);
        s.synchronize();
        if (how == 0) { mr.deallocate(s, p, 1_MiB); }
        if (how == 1) {
            busy(other, p, 1_MiB);
            mr.deallocate(other, p, 1_MiB);
        }
        if (how == 2) { mr.deallocate_sync(p, 1_MiB); }
        if (how == 3) {
            sim_graph::begin(other);
            mr.deallocate(other, p, 1_MiB); // two graphs have it now
            CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
            (void)sim_graph::end(other);
        }
        if (how != 4) {
            CHECK(mr.try_allocate(third, 1_MiB) == nullptr); // the first may run again
            CHECK(mr.try_allocate(s, 1_MiB) == nullptr);
            CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
            CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
            CHECK(mr.trim() == 0);
        }
        mr.forget_captures();
        if (how == 4) { mr.deallocate(s, p, 1_MiB); }
        p = mr.allocate(third, 1_MiB);
        busy(third, p, 1_MiB);
        mr.deallocate(third, p, 1_MiB);
        third.synchronize();
        CHECK(mr.trim() == 1_MiB);
        CHECK(node.reports().empty());
    }
}

} // namespace laws
