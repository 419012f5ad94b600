// SPDX-License-Identifier: Apache-2.0
// Arenas, compiled by nvcc and used by kernels of several threads.

#include <vram/vram.hpp>

#include "kernels.hpp"

#include <atomic> // atomic
#include <vector> // vector

using namespace vram;
using tests::machine;
using tests::wrong_words_in;

using later = stream_ordered<cuda_resource>;

template class vram::arena<pool<later>>;
template class vram::arena<later>;

TEST_CASE("nvcc: arena with threads, each with streams of its own") {
    machine const         here;
    arena<pool<later>>    memory;
    std::atomic<unsigned> wrong{0};
    {
        std::vector<cuda_thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back(cuda_device::current(), [&] { wrong += wrong_words_in(memory); });
        }
        for (auto& t : threads) { t.join(); }
    }
    CHECK(wrong == 0);
    CHECK(memory.usage().live == 0);
}

TEST_CASE("nvcc: arena with a pool for each stream, from with::arena") {
    machine const here;
    auto memory = cuda_resource{} | with::stream_ordered | with::arena({.key = arena_key::stream});
    CHECK(wrong_words_in(memory) == 0);
    CHECK(memory.usage().live == 0);
}
