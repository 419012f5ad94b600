// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_numa_local.hpp> // first: the header stands alone

#include "../machine.hpp"

#ifdef __linux__
#include <sched.h>
#endif

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_numa_local: the thread runs near the device, and afterwards as before") {
    machine const here;
#ifdef __linux__
    cpu_set_t before, within, after;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    {
        cuda_numa_local const near{cuda_device{0}};
        REQUIRE(sched_getaffinity(0, sizeof within, &within) == 0);
        cpu_set_t both;
        CPU_AND(&both, &before, &within);
        CHECK(CPU_EQUAL(&both, &within)); // never outside the previous set
        CHECK(CPU_COUNT(&within) > 0);
    }
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&before, &after));
#endif
}

TEST_CASE("cuda_numa_local: an unknown device has no NUMA node") {
    machine const here;
    CHECK(cuda_numa_local::node_of(cuda_device{99}) == -1);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    cuda_numa_local const nothing{cuda_device{99}};
}
