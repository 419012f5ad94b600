// SPDX-License-Identifier: Apache-2.0
// The memory of a pool and of its tags as counters in Nsight Systems:
//     nsys profile --trace=cuda,nvtx ./interop-nvtx

#include <vram/cuda/cuda.hpp>
#include <vram/interop/nvtx_counters.hpp>
#include <vram/vram.hpp>

using namespace vram;

int main() {
    cuda_stream const stream;
    // [counters]
    auto memory = cuda_resource{} | with::stream_ordered |
                  with::observed(nvtx_counters{nvtx_counters_options{.name = "GPU 0 "}}) |
                  with::pool;
    for (int step = 0; step != 100; ++step) {
        tagged const scope{"activations"}; // rows "GPU 0 pool" and "GPU 0 pool: activations"
        void* const  p = memory.allocate(stream, 64_MiB);
        memory.deallocate(stream, p, 64_MiB);
    }
    // [/counters]
    stream.synchronize();
    return memory.usage().live == 0 ? 0 : 1;
}
