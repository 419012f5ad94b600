// SPDX-License-Identifier: Apache-2.0
// [app]
#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <cub/device/device_reduce.cuh>

#include <algorithm>
#include <cstdio>

__global__ void twice(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }

int main() {
    using namespace vram;
    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory;
    auto sums = make_array<float>(memory, stream, 10); // in device memory, from the pool

    auto fill = [](std::span<float> to, std::size_t index) -> std::size_t { // on its own thread
        std::ranges::fill(to, static_cast<float>(index));                   // in pinned memory
        return index < 10 ? to.size() : 0;                                  // 0: no more batches
    };
    for (auto& batch : loader{typed<float>(fill), stream, {.batch_bytes = 4_MiB}}) {
        auto const x = batch.span<float>(); // in device memory; the next batch is being copied
        twice<<<x.size() / 256, 256, 0, stream>>>(x.data());

        float* const sum   = sums.data() + batch.index();
        std::size_t  bytes = 0;
        cub::DeviceReduce::Sum(nullptr, bytes, x.data(), sum, x.size(), stream);
        buffer scratch{memory, stream, bytes}; // freed in stream order: the host does not wait
        cub::DeviceReduce::Sum(scratch.data(), bytes, x.data(), sum, x.size(), stream);
    }
    std::fputs(report(memory).c_str(), stdout);
    return sums.get(9) == 2 * 9 * 1024 * 1024 ? 0 : 1; // get() waits for the stream
}
// [/app]
