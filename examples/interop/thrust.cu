// SPDX-License-Identifier: Apache-2.0
// Vectors and algorithms of Thrust on memory of vram: device memory, managed and pinned memory.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/thrust.hpp>
#include <vram/vram.hpp>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

using namespace vram;

int main() {
    cuda_stream stream;
    // [device]
    pool<stream_ordered<cuda_resource>> memory;
    thrust_allocator<int>               allocator{memory, stream};
    auto const policy = thrust::cuda::par_nosync(allocator).on(stream); // temporary storage, too
    thrust::device_vector<int, thrust_allocator<int>> keys(1'000'000, allocator);
    thrust::sequence(policy, keys.begin(), keys.end());
    thrust::sort(policy, keys.begin(), keys.end(), thrust::greater<int>{});
    // [/device]

    // [managed]
    pool<stream_ordered<managed_resource>> managed;
    using universal = thrust_universal_allocator<int>;
    thrust::device_vector<int, universal> both(1'000'000, universal{managed, stream});
    thrust::copy(policy, keys.begin(), keys.end(), both.begin());
    stream.synchronize();
    int const largest = both[0]; // the host reads the memory itself
    // [/managed]

    // [pinned]
    shared                                               pinned{pool{pinned_resource{}}};
    thrust::host_vector<int, thrust_host_allocator<int>> staged(keys.size(), {pinned});
    thrust::copy(keys.begin(), keys.end(), staged.begin());
    // [/pinned]
    return largest == 999'999 && staged[1] == 999'998 ? 0 : 1;
}
