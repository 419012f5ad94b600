// SPDX-License-Identifier: Apache-2.0
// loaded 0|1: uses a pool with the observers of NVTX, without a tool or with one that the variable
// NVTX_INJECTION64_PATH names. Ends with 0 if there is a tool as the argument says.

#include <vram/interop/nvtx_counters.hpp>
#include <vram/interop/nvtx_memory.hpp>
#include <vram/interop/nvtx_tagged.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <cstdio>
#include <functional>
#include <string>

using namespace vram;

int main(int argc, char** argv) {
    bool const        wanted = argc == 2 && argv[1] == std::string{"1"};
    nvtx_tagged const scope{"loaded"};
    sim_node const    node;
    sim_stream const  stream;
    nvtx_counters     counters;
    nvtx_memory       regions;
    bool              found = true;
    {
        pool first{observed{stream_ordered{sim_resource{}}, std::ref(counters)}};
        pool second{observed{stream_ordered{sim_resource{}}, std::ref(regions)}};
        for (int i = 0; i != 100; ++i) {
            first.deallocate(stream, first.allocate(stream, 1000), 1000);
            second.deallocate(stream, second.allocate(stream, 1000), 1000);
        }
        found = counters.attached() == wanted && regions.attached() == wanted;
    }
    std::puts(found ? "as wanted" : "not as wanted");
    return found ? 0 : 1;
}
