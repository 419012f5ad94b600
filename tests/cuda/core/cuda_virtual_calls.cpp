// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_virtual_calls.hpp> // first: the header stands alone

#include "../machine.hpp"

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_virtual_calls: the driver has them all, and is queried once") {
    machine const             here;
    cuda_virtual_calls const& calls = cuda_virtual_calls::here();
    CHECK((calls.granularity != nullptr));
    CHECK((calls.reserve != nullptr));
    CHECK((calls.release != nullptr));
    CHECK((calls.create != nullptr));
    CHECK((calls.destroy != nullptr));
    CHECK((calls.map != nullptr));
    CHECK((calls.unmap != nullptr));
    CHECK((calls.set_access != nullptr));
    CHECK((calls.export_handle != nullptr));
    CHECK(&cuda_virtual_calls::here() == &calls);
}

TEST_CASE("cuda_virtual_calls: their results are codes of the runtime") {
    CHECK(cuda_virtual_calls::status(CUDA_SUCCESS) == cudaSuccess);
    CHECK(cuda_virtual_calls::status(CUDA_ERROR_OUT_OF_MEMORY) == cudaErrorMemoryAllocation);
    CHECK(cuda_virtual_calls::status(CUDA_ERROR_INVALID_DEVICE) == cudaErrorInvalidDevice);
    CHECK(cuda_virtual_calls::status(CUDA_ERROR_NOT_PERMITTED) == cudaErrorNotPermitted);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_virtual_calls: a driver without them is a clear error") {
    machine const here{{.virtual_memory = false}};
    try {
        (void)cuda_virtual_calls::look_up();
        FAIL("there is nothing to find");
    } catch (cuda_error const& e) { CHECK(e.status() == cudaErrorSymbolNotFound); }
}

TEST_CASE("cuda_virtual_calls: a driver that is too old is another clear error") {
    machine const here{{.old_driver = true}};
    try {
        (void)cuda_virtual_calls::look_up();
        FAIL("it has not got them yet");
    } catch (cuda_error const& e) { CHECK(e.status() == cudaErrorCallRequiresNewerDriver); }
}

TEST_CASE("cuda_virtual_calls: each lookup that fails is thrown") {
    machine const here;
    (void)cuda_virtual_calls::here();
    auto const before = doubles::cudart::calls("cudaGetDriverEntryPointByVersion");
    (void)cuda_virtual_calls::here();
    CHECK(doubles::cudart::calls("cudaGetDriverEntryPointByVersion") == before);
    CHECK(tests::walk_failures([] { (void)cuda_virtual_calls::look_up(); }, [] {}) == 2 * 9);
}
#endif
