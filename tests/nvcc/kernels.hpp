// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels that write and check memory, and a test of any resource of the device with them.

#include <vram/cuda/cuda.hpp>
#include <vram/handle/buffer.hpp>

#include "../cuda/machine.hpp"

#include <cstddef> // size_t
#include <vector>  // vector

namespace tests {

namespace {

/// Returns the word that is written at index `i` of a block.
__host__ __device__ inline unsigned word(std::size_t i, unsigned seed) {
    return seed ^ static_cast<unsigned>(i * 2654435761U);
}

__global__ void write_words(unsigned* to, std::size_t n, unsigned seed) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
        to[i] = word(i, seed);
    }
}

__global__ void count_wrong(unsigned const* from, std::size_t n, unsigned seed, unsigned* wrong) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
        if (from[i] != word(i, seed)) { atomicAdd(wrong, 1U); }
    }
}

__global__ void add_to_all(float* to, std::size_t n, float what) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
        to[i] += what;
    }
}

} // namespace

/// Counts the words that kernels find wrong.
class wrong_words {
public:
    wrong_words() {
        vram::cuda_check(cudaMallocManaged(&count_, sizeof *count_));
        *count_ = 0;
    }
    wrong_words(wrong_words&&) = delete;
    ~wrong_words() { cudaFree(count_); }

    void look(vram::cuda_stream_view s, void const* p, std::size_t bytes, unsigned seed) {
        count_wrong<<<8, 128, 0, s>>>(static_cast<unsigned const*>(p), bytes / sizeof(unsigned),
                                      seed, count_);
        vram::cuda_check(cudaGetLastError());
    }
    [[nodiscard]] unsigned count() const {
        vram::cuda_check(cudaDeviceSynchronize());
        return *count_;
    }

private:
    unsigned* count_ = nullptr;
};

inline void write(vram::cuda_stream_view s, void* p, std::size_t bytes, unsigned seed) {
    write_words<<<8, 128, 0, s>>>(static_cast<unsigned*>(p), bytes / sizeof(unsigned), seed);
    vram::cuda_check(cudaGetLastError());
}

/// Blocks of up to `largest` bytes are allocated and freed on three streams: a kernel writes each,
/// and another one checks it before it is freed, sometimes on a stream that waited for the first.
/// Returns the number of wrong words.
template <vram::resource R>
unsigned wrong_words_in(R& memory, std::size_t largest = 1 << 20) {
    struct held {
        void*       p;
        std::size_t bytes;
        unsigned    seed;
        std::size_t on;
    };
    wrong_words                    wrong;
    std::vector<vram::cuda_stream> streams(3);
    vram::cuda_event               handed;
    std::vector<held>              blocks;

    unsigned   state  = 12345;
    auto const random = [&state] { return state = state * 1664525U + 1013904223U, state >> 8; };
    auto const free   = [&](std::size_t i) {
        held const one = blocks[i];
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
        std::size_t on = one.on;
        if (random() % 4 == 0) {
            handed.record(streams[on]);
            on = (on + 1) % streams.size();
            handed.wait(streams[on]);
        }
        wrong.look(streams[on], one.p, one.bytes, one.seed);
        memory.deallocate(streams[on], one.p, one.bytes);
    };
    for (int i = 0; i < 300; ++i) {
        if (blocks.size() > 20 || (!blocks.empty() && random() % 2 == 0)) {
            free(random() % blocks.size());
        }
        held one{nullptr, 4 + random() % (largest - 4), random(), random() % streams.size()};
        one.p = memory.allocate(streams[one.on], one.bytes);
        write(streams[one.on], one.p, one.bytes, one.seed);
        blocks.push_back(one);
    }
    while (!blocks.empty()) { free(0); }
    for (auto const& s : streams) { s.synchronize(); }
    if constexpr (vram::retiring_resource<R>) {
        for (auto const& s : streams) { memory.retire(s); }
    }
    return wrong.count();
}

/// Allocates with the synchronous pair, for memory of any kind that the device can access.
template <vram::synchronous_resource R>
unsigned wrong_words_in_sync(R& memory, std::size_t bytes = 100'000) {
    wrong_words             wrong;
    vram::cuda_stream const s;
    void* const             first  = memory.allocate_sync(bytes);
    void* const             second = memory.allocate_sync(bytes);
    write(s, first, bytes, 1);
    write(s, second, bytes, 2);
    wrong.look(s, first, bytes, 1);
    wrong.look(s, second, bytes, 2);
    s.synchronize();
    memory.deallocate_sync(first, bytes);
    memory.deallocate_sync(second, bytes);
    return wrong.count();
}

} // namespace tests
