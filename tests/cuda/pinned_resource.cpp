// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/pinned_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_thread.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>

#include <vector> // vector

using namespace vram;
using tests::machine;

TEST_CASE("pinned_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return pinned_resource{}; },
                 {.largest_alignment = 64_KiB, .operations = 300});
}

TEST_CASE("pinned_resource: its flags are passed to CUDA") {
    machine const here;
    for (unsigned bits = 0; bits < 8; ++bits) {
        pinned_resource mr{cuda_device::current(),
                           {.portable       = (bits & 1) != 0,
                            .mapped         = (bits & 2) != 0,
                            .write_combined = (bits & 4) != 0}};
        void* const     p     = mr.allocate_sync(100);
        unsigned        flags = 0;
        cuda_check(cudaHostGetFlags(&flags, p));
        CHECK(((flags & cudaHostAllocWriteCombined) != 0) == ((bits & 4) != 0));
        if ((bits & 1) != 0) { CHECK((flags & cudaHostAllocPortable) != 0); }
        if ((bits & 2) != 0) { CHECK((flags & cudaHostAllocMapped) != 0); }
        mr.deallocate_sync(p, 100);
    }
}

TEST_CASE(
    "pinned_resource: a pool allocates large blocks, rounds to no power of two, and has a limit") {
    machine const                   here;
    pool<limiting<pinned_resource>> mr{limiting{pinned_resource{}, 40_MiB}};
    void* const                     large = mr.allocate_sync(17_MiB); // not 32
    CHECK(mr.usage().reserved <= 20_MiB);
    std::vector<void*> small;
    for (int i = 0; i < 100; ++i) { small.push_back(mr.allocate_sync(10'000)); }
    CHECK(mr.upstream().used() < 24_MiB); // a hundred blocks are one of its blocks more
    for (void* const each : small) { mr.deallocate_sync(each, 10'000); }
    CHECK_THROWS_AS((void)mr.allocate_sync(33_MiB), std::bad_alloc);
    mr.deallocate_sync(large, 17_MiB);
    void* const again = mr.allocate_sync(33_MiB); // idle memory is returned first
    CHECK(mr.upstream().used() <= 40_MiB);
    mr.deallocate_sync(again, 33_MiB);
    CHECK(mr.usage().live == 0);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("pinned_resource: memory that a pool has is not pinned again") {
    machine const         here;
    pool<pinned_resource> mr{pinned_resource{}};
    mr.deallocate_sync(mr.allocate_sync(5_MiB), 5_MiB);
    auto const before = doubles::cudart::calls("cudaHostAlloc");
    for (int i = 0; i < 100; ++i) { mr.deallocate_sync(mr.allocate_sync(5_MiB), 5_MiB); }
    CHECK(doubles::cudart::calls("cudaHostAlloc") == before);
    CHECK(doubles::cudart::calls("cudaFreeHost") == 0);
}
#endif
