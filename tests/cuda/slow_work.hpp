// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slow_work` keeps a stream busy for a while: about a millisecond on a device, a virtual one on
/// the double.

#include <vram/cuda/cuda_error.hpp>       // cuda_check
#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cuda_runtime_api.h>

#include <cstddef> // size_t

namespace tests {

/// Copies of pinned memory to the device.
class slow_work {
public:
    slow_work() {
        vram::cuda_check(cudaHostAlloc(&from_, bytes, cudaHostAllocDefault));
        vram::cuda_check(cudaMalloc(&to_, bytes));
    }
    slow_work(slow_work&&) = delete;
    ~slow_work() {
        cudaFree(to_);
        cudaFreeHost(from_);
    }

    void enqueue(vram::cuda_stream_view s) const {
        vram::cuda_check(cudaMemcpyAsync(to_, from_, bytes, cudaMemcpyDefault, s.get()));
    }

private:
    static constexpr std::size_t bytes = std::size_t{64} << 20;

    void* from_ = nullptr;
    void* to_   = nullptr;
};

} // namespace tests
