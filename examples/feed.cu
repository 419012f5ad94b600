// SPDX-License-Identifier: Apache-2.0
// The device half of the feed example.

#include "feed_kernels.hpp"

#include <vram/cuda/cuda_error.hpp> // cuda_check

namespace {

constexpr unsigned threads = 256; // one for each value of a byte

/// Each block counts one tile in shared memory and writes the result to its own element of `tiles`.
__global__ void count_tiles(std::byte const* data, std::size_t bytes, std::uint64_t place,
                            partial_digest* tiles) {
    __shared__ std::uint32_t      count[256];
    __shared__ unsigned long long checksum;
    count[threadIdx.x] = 0;
    if (threadIdx.x == 0) { checksum = 0; }
    __syncthreads();

    std::size_t const  begin = blockIdx.x * digest_tile;
    std::size_t const  end   = min(begin + digest_tile, bytes);
    unsigned long long sum   = 0;
    for (std::size_t i = begin + threadIdx.x; i < end; i += threads) {
        auto const value = static_cast<unsigned>(data[i]);
        atomicAdd(&count[value], 1U);
        sum += digest_term(place + i, value);
    }
    atomicAdd(&checksum, sum);
    __syncthreads();

    tiles[blockIdx.x].count[threadIdx.x] = count[threadIdx.x];
    if (threadIdx.x == 0) { tiles[blockIdx.x].checksum = checksum; }
}

/// One block adds all tiles to the digest; thread i has the i-th count.
__global__ void add_tiles(partial_digest const* tiles, std::size_t n, digest* into) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < n; ++i) { count += tiles[i].count[threadIdx.x]; }
    into->count[threadIdx.x] += count;
    if (threadIdx.x == 0) {
        for (std::size_t i = 0; i < n; ++i) { into->checksum += tiles[i].checksum; }
    }
}

} // namespace

// [wrapper]
void add_on_device(vram::cuda_stream_view stream, std::byte const* data, std::size_t bytes,
                   std::uint64_t place, partial_digest* scratch, digest* into) {
    auto const tiles = static_cast<unsigned>(digest_tiles(bytes));
    count_tiles<<<tiles, threads, 0, stream.get()>>>(data, bytes, place, scratch);
    vram::cuda_check(cudaGetLastError());
    add_tiles<<<1, threads, 0, stream.get()>>>(scratch, tiles, into);
    vram::cuda_check(cudaGetLastError());
}
// [/wrapper]
