// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_memory_kind.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>

#include <vector> // vector

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_memory_kind: each kind is recognised, and unknown memory is pageable") {
    machine const     here;
    cuda_resource     device;
    pinned_resource   pinned;
    managed_resource  managed;
    cuda_stream const stream;
    auto* const       d = static_cast<char*>(device.allocate_sync(1000));
    auto* const       p = static_cast<char*>(pinned.allocate_sync(1000));
    auto* const       m = static_cast<char*>(managed.allocate_sync(1000));
    for (std::size_t const at : {0U, 999U}) {
        CHECK(cuda_memory_kind(d + at) == memory_kind::device);
        CHECK(cuda_memory_kind(p + at) == memory_kind::pinned);
        CHECK(cuda_memory_kind(m + at) == memory_kind::managed);
    }
    {
        cuda_async_resource pool;
        void* const         a = pool.allocate(stream, 1000);
        CHECK(cuda_memory_kind(a) == memory_kind::device);
        pool.deallocate(stream, a, 1000);
        stream.synchronize();
    }
    std::vector<char> plain(3 * 4096);
    CHECK(cuda_memory_kind(plain.data()) == memory_kind::pageable);
    CHECK(cuda_memory_kind(nullptr) == memory_kind::pageable);
    managed.deallocate_sync(m, 1000);
    pinned.deallocate_sync(p, 1000);
    device.deallocate_sync(d, 1000);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_memory_kind: every error of the runtime is thrown") {
    machine const here;
    char          plain   = 0;
    auto const    nothing = [] {};
    CHECK(tests::walk_failures([&] { (void)cuda_memory_kind(&plain); }, nothing) == 2);
}
#endif
