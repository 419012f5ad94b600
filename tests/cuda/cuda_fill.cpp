// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_fill.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/cuda/cuda_copy.hpp>
#include <vram/cuda/cuda_stream.hpp>

#include <vector> // vector

using namespace vram;
using tests::machine;

TEST_CASE("cuda_fill: it writes exactly the given bytes") {
    machine const     here;
    cuda_stream const s;
    void*             p = nullptr;
    cuda_check(cudaMalloc(&p, 256));
    cuda_fill(s, p, std::byte{0x11}, 256);
    cuda_fill(s, static_cast<std::byte*>(p) + 10, std::byte{0xfe}, 100);
    cuda_fill(s, p, std::byte{0x77}, 0);
    std::vector<std::byte> back(256);
    cuda_copy(s, back.data(), p, 256);
    s.synchronize();
    for (std::size_t i = 0; i < 256; ++i) {
        CHECK(back[i] == (i >= 10 && i < 110 ? std::byte{0xfe} : std::byte{0x11}));
    }
    cuda_check(cudaFree(p));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_fill: every error of the runtime is thrown") {
    machine const     here;
    cuda_stream const s;
    void*             p = nullptr;
    cuda_check(cudaMalloc(&p, 256));
    CHECK(tests::walk_failures([&] { cuda_fill(s, p, std::byte{1}, 256); }, [] {}) == 2);
    s.synchronize();
    cuda_check(cudaFree(p));
}
#endif
