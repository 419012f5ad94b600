// SPDX-License-Identifier: Apache-2.0
// Algorithms of CUB with temporary storage from a stack: the environment of CCCL 3.4 and newer, and
// both phases in one call for every version.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/cub.hpp>
#include <vram/vram.hpp>

#include <cub/device/device_reduce.cuh>

#include <numeric>
#include <vector>

using namespace vram;

int main() {
    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory;
    std::vector<int>                    host(1000);
    std::iota(host.begin(), host.end(), 0);
    auto numbers = make_array<int>(memory, stream, host.size());
    auto sum     = make_array<int>(memory, stream, 1);
    numbers.copy_from(host);
    int const* const in  = numbers.data();
    int* const       out = sum.data();
    auto const       n   = static_cast<int>(host.size());

    // [phases]
    cub_run(memory, stream, [&](void* storage, std::size_t& bytes) {
        return cub::DeviceReduce::Sum(storage, bytes, in, out, n, stream);
    });
    // [/phases]
    bool right = sum.get(0) == 499'500;

#if CCCL_VERSION >= 3004000
    // [environment]
    cub_environment const env{memory, stream};
    cuda_check(cub::DeviceReduce::Max(in, out, n, env));
    // [/environment]
    right = right && sum.get(0) == 999;
#endif
    return right ? 0 : 1;
}
