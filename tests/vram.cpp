// SPDX-License-Identifier: Apache-2.0
#include <vram/vram.hpp> // first: the header stands alone

#include <vram/probe/doctest.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("vram.hpp: a program includes only it and a platform") {
    sim_node node;
    {
        sim_stream                         stream;
        pool<stream_ordered<sim_resource>> memory;
        VRAM_CHECK_NO_LEAK(memory) {
            memory_delta probe{memory};
            void* const  scratch = memory.allocate(stream, 64_MiB);
            CHECK(probe.bytes() == 64_MiB);
            memory.deallocate(stream, scratch, 64_MiB);
        }
        stream.synchronize();
    }
    node.finish();
    CHECK(node.reports().empty());
}
