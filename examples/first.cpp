// SPDX-License-Identifier: Apache-2.0
// A stack is a type: plain device memory, taught what "later" means, cut into small blocks.

// [first]
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp> // on a GPU: vram/cuda/cuda.hpp, cuda_resource and cuda_stream

using namespace vram;

int main() {
    sim_stream                         stream;
    pool<stream_ordered<sim_resource>> memory;

    void* const weights = memory.allocate(stream, 64_MiB);
    void* const scratch = memory.allocate(stream, 16_MiB);
    memory.deallocate(stream, scratch, 16_MiB);           // in stream order: nobody waits
    void* const reused = memory.allocate(stream, 16_MiB); // the same stream: the same bytes
    expects(reused == scratch, "a stream has its own memory back at once");
    expects(memory.usage().live == 80_MiB, "64 and 16 MiB are out");

    memory.deallocate(stream, reused, 16_MiB);
    memory.deallocate(stream, weights, 64_MiB);
}
// [/first]
