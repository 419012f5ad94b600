// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_device_guard.hpp> // first: the header stands alone

#include "machine.hpp"

using namespace vram;
using doubles::mishaps;
using tests::machine;

static_assert(!std::is_move_constructible_v<cuda_device_guard>);
static_assert(std::is_nothrow_constructible_v<cuda_device_guard, cuda_device, std::nothrow_t>);

TEST_CASE("cuda_device_guard: the current device stays current") {
    machine const           here;
    cuda_device const       before = cuda_device::current();
    cuda_device_guard const on{before};
    CHECK(cuda_device::current() == before);
    CHECK(on.status() == cudaSuccess);
}

TEST_CASE("cuda_device_guard: an unknown device is refused, and nothing has changed") {
    machine const here;
    CHECK_THROWS_AS((void)cuda_device_guard{cuda_device{99}}, cuda_error);
    CHECK(cuda_device::current() == cuda_device{0});
    {
        cuda_device_guard const on{cuda_device{99}, std::nothrow};
        CHECK(on.status() == cudaErrorInvalidDevice);
        CHECK(cuda_device::current() == cuda_device{0});
        cuda_error::clear(on.status());
    }
    CHECK(cuda_device::current() == cuda_device{0});
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_device_guard: another device becomes current, then the previous one again") {
    machine const here;
    {
        cuda_device_guard const on{cuda_device{1}};
        CHECK(cuda_device::current() == cuda_device{1});
        {
            cuda_device_guard const back{cuda_device{0}, std::nothrow};
            CHECK(cuda_device::current() == cuda_device{0});
        }
        CHECK(cuda_device::current() == cuda_device{1});
    }
    CHECK(cuda_device::current() == cuda_device{0});
}

TEST_CASE("cuda_device_guard: if the device is current already, the cost is one query") {
    machine const here;
    { cuda_device_guard const on{cuda_device{0}}; }
    CHECK(doubles::cudart::calls("cudaGetDevice") == 1);
    CHECK(doubles::cudart::calls("cudaSetDevice") == 0);
    { cuda_device_guard const on{cuda_device{1}}; }
    CHECK(doubles::cudart::calls("cudaGetDevice") == 2);
    CHECK(doubles::cudart::calls("cudaSetDevice") == 2);
}

TEST_CASE(
    "cuda_device_guard: a failure in the constructor is thrown, and in the destructor reported") {
    machine const here;
    for (std::uint64_t n : {1, 2}) {
        doubles::cudart::fail_nth(n, cudaErrorUnknown);
        CHECK_THROWS_AS((void)cuda_device_guard{cuda_device{1}}, cuda_error);
        CHECK(doubles::cudart::forgive());
        CHECK(cuda_device::current() == cuda_device{0});
    }
    mishaps const told;
    {
        cuda_device_guard const on{cuda_device{1}};
        doubles::cudart::fail("cudaSetDevice", cudaErrorUnknown);
    }
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::platform_error) == 1);
    cuda_check(cudaSetDevice(0));
}
#endif
