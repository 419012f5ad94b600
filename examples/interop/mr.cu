// SPDX-License-Identifier: Apache-2.0
// A stack under `cuda::buffer`, and a pool of CCCL under a layer of vram: for CCCL 3.2 and newer.
// (For CCCL 3.0 see lend_to_cccl.cu.)

#include <vram/cuda/cuda.hpp>
#include <vram/interop/mr.hpp>
#include <vram/vram.hpp>

#if CCCL_VERSION >= 3002000

#include <cuda/buffer>
#include <cuda/devices>
#include <cuda/memory_pool>
#include <cuda/stream>

using namespace vram;

int main() {
    cuda::stream stream{cuda::devices[0]};
    bool         right = true;
    {
        // [buffer]
        pool<stream_ordered<cuda_resource>> memory;
        auto const zeros = cuda::make_buffer<float>(stream, as_mr(memory), 1'000'000, 0.0F);
        // [/buffer]
        right = memory.usage().live >= 4'000'000;
        stream.sync();
    }
    // [pool]
    cuda::device_memory_pool driver{cuda::devices[0]};
    limiting                 budget{mr{driver}, 1_GiB}; // a layer of vram over it
    auto const scratch = make_array<float>(budget, cuda_stream_view{stream.get()}, 1000);
    // [/pool]
    return right && budget.used() == 4000 ? 0 : 1;
}

#else

int main() {}

#endif
