// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/pinned_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_thread.hpp>

using namespace vram;
using tests::machine;

TEST_CASE("pinned_resource keeps the laws of a resource") {
    machine const here;
    laws::source([] { return pinned_resource{}; },
                 {.largest_alignment = 64_KiB, .operations = 300});
}

TEST_CASE("pinned_resource: what it is made for is asked of CUDA") {
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
