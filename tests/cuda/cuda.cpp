// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/layer/stream_ordered.hpp>

using namespace vram;
using tests::machine;

TEST_CASE("cuda: cuda/cuda.hpp includes the whole platform") {
    machine const                 here;
    stream_ordered<cuda_resource> memory{cuda_resource{}};
    cuda_stream const             s;
    void* const                   p = memory.allocate(s, 1000);
    cuda_fill(s, p, std::byte{3}, 1000);
    memory.deallocate(s, p, 1000);
    s.synchronize();
}
