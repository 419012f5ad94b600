// SPDX-License-Identifier: Apache-2.0
// Kernels on memory of the CUDA resources: a stream reads back its own writes, and writes to no
// other memory.

#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>

#include "machine.hpp"

#include <algorithm> // count
#include <random>    // mt19937
#include <vector>    // vector

using namespace vram;

namespace {

__global__ void write_pattern(unsigned* to, std::size_t n, unsigned seed) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
        to[i] = seed ^ static_cast<unsigned>(i * 2654435761U);
    }
}

__global__ void count_errors(unsigned const* from, std::size_t n, unsigned seed, unsigned* errors) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
        if (from[i] != (seed ^ static_cast<unsigned>(i * 2654435761U))) { atomicAdd(errors, 1U); }
    }
}

/// Blocks are allocated and freed on several streams, some are handed from one to another. Each is
/// written after its allocation and read before its free.
template <class R>
unsigned wrong_words(R& memory) {
    struct piece {
        unsigned*   p;
        std::size_t words;
        unsigned    seed;
        std::size_t stream;
    };
    std::vector<cuda_stream> streams(4);
    std::vector<piece>       out;
    std::mt19937             random{7};
    auto const  counter = static_cast<unsigned*>(memory.allocate_sync(sizeof(unsigned)));
    cuda_stream side;
    cuda_fill(side, counter, std::byte{0}, sizeof(unsigned));
    side.synchronize();

    auto const give = [&](std::size_t which) {
        piece const one = out[which];
        out[which]      = out.back();
        out.pop_back();
        std::size_t last = one.stream;
        if (random() % 3 == 0) { // handed to another stream
            last = random() % streams.size();
            cuda_event place;
            place.record(streams[one.stream]);
            place.wait(streams[last]);
        }
        count_errors<<<64, 256, 0, streams[last].get()>>>(one.p, one.words, one.seed, counter);
        cuda_check(cudaGetLastError());
        memory.deallocate(streams[last], one.p, one.words * sizeof(unsigned));
    };
    for (int i = 0; i < 2000; ++i) {
        if (out.size() > 40 || (!out.empty() && random() % 2 == 0)) { give(random() % out.size()); }
        piece one{nullptr, 1 + random() % 200'000, static_cast<unsigned>(random()),
                  random() % streams.size()};
        one.p = static_cast<unsigned*>(
            memory.allocate(streams[one.stream], one.words * sizeof(unsigned)));
        write_pattern<<<64, 256, 0, streams[one.stream].get()>>>(one.p, one.words, one.seed);
        cuda_check(cudaGetLastError());
        out.push_back(one);
    }
    while (!out.empty()) { give(0); }
    for (auto const& s : streams) { s.synchronize(); }

    unsigned errors = 1;
    cuda_copy(side, &errors, counter, sizeof errors);
    side.synchronize();
    memory.deallocate_sync(counter, sizeof(unsigned));
    return errors;
}

} // namespace

TEST_CASE("kernels read back their own writes: stream_ordered over cuda_resource") {
    tests::machine const          here;
    stream_ordered<cuda_resource> memory{cuda_resource{}};
    CHECK(wrong_words(memory) == 0);
}

TEST_CASE("kernels read back their own writes: cuda_async_resource") {
    tests::machine const here;
    cuda_async_resource  memory;
    CHECK(wrong_words(memory) == 0);
    CHECK(memory.usage().live == 0);
}

TEST_CASE("kernels access pinned and managed memory through the host's pointers") {
    tests::machine const here;
    cuda_stream const    s;
    pinned_resource      pinned;
    managed_resource     managed;
    auto* const          first  = static_cast<unsigned*>(pinned.allocate_sync(4096));
    auto* const          second = static_cast<unsigned*>(managed.allocate_sync(4096));
    write_pattern<<<4, 256, 0, s.get()>>>(first, 1024, 1);
    write_pattern<<<4, 256, 0, s.get()>>>(second, 1024, 1);
    cuda_check(cudaGetLastError());
    s.synchronize();
    CHECK(std::equal(first, first + 1024, second));
    CHECK(first[0] == 1);
    pinned.deallocate_sync(first, 4096);
    managed.deallocate_sync(second, 4096);
}
