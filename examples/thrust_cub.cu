// SPDX-License-Identifier: Apache-2.0
// Memory of a pool for Thrust's vectors and algorithms, and for CUB.

// [includes]
#include <vram/cuda/cuda.hpp>
#include <vram/interop/thrust_allocator.hpp>
#include <vram/vram.hpp>

#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
// [/includes]

using namespace vram;

int main() {
    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory;
    // [thrust]
    thrust_allocator<int> allocator{memory, stream};
    auto const policy = thrust::cuda::par(allocator).on(stream); // for its temporary memory too

    thrust::device_vector<int, thrust_allocator<int>> values(1'000'000, allocator);
    thrust::sequence(policy, values.begin(), values.end());
    thrust::sort(policy, values.begin(), values.end(), thrust::greater<int>{});
    // [/thrust]

    // [cub]
    auto        largest = make_array<int>(memory, stream, 1);
    int*        in      = thrust::raw_pointer_cast(values.data());
    std::size_t bytes   = 0;
    cub::DeviceReduce::Max(nullptr, bytes, in, largest.data(), values.size(), stream);
    buffer scratch{memory, stream, bytes}; // freed in stream order, when the scope ends
    cub::DeviceReduce::Max(scratch.data(), bytes, in, largest.data(), values.size(), stream);
    // [/cub]
    return largest.get(0) == 999'999 && values[0] == 999'999 ? 0 : 1;
}
