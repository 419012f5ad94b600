// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_memory_info.hpp> // first: the header stands alone

#include "machine.hpp"

using namespace vram;
using tests::machine;

TEST_CASE("cuda_memory_info: the free bytes are at most the total, and shrink with allocations") {
    machine const     here;
    memory_info const before = cuda_memory_info();
    CHECK(before.total > 0);
    CHECK(before.free <= before.total);
    void* p = nullptr;
    cuda_check(cudaMalloc(&p, std::size_t{256} << 20));
    CHECK(cuda_memory_info(cuda_device::current()).free < before.free);
    cuda_check(cudaFree(p));
}

TEST_CASE("cuda_memory_info: an unknown device is refused, or has no memory") {
    machine const here;
    CHECK_THROWS_AS((void)cuda_memory_info(cuda_device{99}), cuda_error);
    CHECK(cuda_memory_info(cuda_device{99}, std::nothrow) == memory_info{});
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_memory_info: it queries the given device") {
    machine const here;
    void*         p = nullptr;
    cuda_check(cudaMalloc(&p, std::size_t{1} << 20));
    CHECK(cuda_memory_info(cuda_device{1}).free > cuda_memory_info(cuda_device{0}).free);
    CHECK(cuda_device::current() == cuda_device{0});
    cuda_check(cudaFree(p));
}

TEST_CASE("cuda_memory_info: every error of the runtime is thrown, or the result is zero") {
    machine const here;
    CHECK(tests::walk_failures([] { (void)cuda_memory_info(cuda_device{1}); }, [] {}) == 6);
    doubles::cudart::fail("cudaMemGetInfo", cudaErrorUnknown);
    CHECK(cuda_memory_info(cuda_device{0}, std::nothrow) == memory_info{});
    CHECK(doubles::cudart::forgive());
}
#endif
