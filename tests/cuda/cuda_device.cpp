// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_device.hpp> // first: the header stands alone

#include "machine.hpp"

#include <concepts> // regular

using namespace vram;
using tests::machine;

static_assert(std::regular<cuda_device>);
static_assert(sizeof(cuda_device) == sizeof(int));
static_assert(!std::is_convertible_v<int, cuda_device>);

TEST_CASE("cuda_device: it is an index of a device") {
    CHECK(cuda_device{} == cuda_device{0});
    CHECK(cuda_device{1} != cuda_device{0});
    CHECK(cuda_device{3}.ordinal() == 3);
}

TEST_CASE("cuda_device: the current device is per thread") {
    machine const here;
    CHECK(cuda_device::current() == cuda_device{0});
    CHECK(cuda_device::count() >= 1);
    if (tests::two_devices()) {
        cuda_check(cudaSetDevice(1));
        CHECK(cuda_device::current() == cuda_device{1});
        cuda_check(cudaSetDevice(0));
    }
}

TEST_CASE("cuda_device: attributes and peers can be queried") {
    machine const here;
    CHECK(cuda_device{}.attribute(cudaDevAttrMultiProcessorCount) > 0);
    CHECK_FALSE(cuda_device{}.can_access(cuda_device{})); // a device is not its own peer
    CHECK_THROWS_AS((void)cuda_device{99}.attribute(cudaDevAttrMultiProcessorCount), cuda_error);
    CHECK_THROWS_AS((void)cuda_device{}.can_access(cuda_device{99}), cuda_error);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_device: every error of the runtime is thrown") {
    machine const here;
    auto const    nothing = [] {};
    CHECK(tests::walk_failures([] { (void)cuda_device::current(); }, nothing) == 2);
    CHECK(tests::walk_failures([] { (void)cuda_device::count(); }, nothing) == 2);
    CHECK(tests::walk_failures(
              [] { (void)cuda_device{}.attribute(cudaDevAttrMultiProcessorCount); }, nothing) == 2);
    CHECK(tests::walk_failures([] { (void)cuda_device{}.can_access(cuda_device{1}); }, nothing) ==
          2);
}
#endif
