// SPDX-License-Identifier: Apache-2.0
// The memory of a pool and of its tags as counters in Nsight Systems, and its blocks in
// compute-sanitizer:
//     nsys profile --trace=cuda,nvtx ./interop-nvtx
//     compute-sanitizer ./interop-nvtx

#include <vram/cuda/cuda.hpp>
#include <vram/interop/nvtx_counters.hpp>
#include <vram/interop/nvtx_memory.hpp>
#include <vram/interop/nvtx_tagged.hpp>
#include <vram/vram.hpp>

using namespace vram;

namespace {
__global__ void count(unsigned char* to, int n) {
    for (int i = 0; i < n; ++i) { to[i] = static_cast<unsigned char>(i); }
}
} // namespace

int main() {
    cuda_stream const stream;
    // [counters]
    auto memory = cuda_resource{} | with::stream_ordered |
                  with::observed(nvtx_counters{nvtx_counters_options{.name = "GPU 0 "}}) |
                  with::pool;
    for (int step = 0; step != 100; ++step) {
        nvtx_tagged const scope{"activations"}; // a range, and a row "GPU 0 pool: activations"
        void* const       p = memory.allocate(stream, 64_MiB);
        memory.deallocate(stream, p, 64_MiB);
    }
    // [/counters]

    // [memory]
    auto checked = cuda_resource{} | with::stream_ordered | with::observed(nvtx_memory{}) |
                   with::pool; // compute-sanitizer reports each access outside of a block
    auto* const block = static_cast<unsigned char*>(checked.allocate(stream, 1000));
    count<<<1, 1, 0, stream.get()>>>(block, 1000); // of 1001: "1 bytes after ... of size 1,000"
    checked.deallocate(stream, block, 1000);
    // [/memory]
    stream.synchronize();
    return memory.usage().live == 0 && checked.usage().live == 0 ? 0 : 1;
}
