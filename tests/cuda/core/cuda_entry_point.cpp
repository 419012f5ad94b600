// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_entry_point.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <cuda.h>

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_entry_point: a function of the driver is found by its name") {
    machine const here;
    auto const    found = cuda_entry_point<decltype(&::cuMemUnmap)>("cuMemUnmap", 10020);
    CHECK((found.call != nullptr));
    CHECK(found.why == cudaDriverEntryPointSuccess);
}

TEST_CASE("cuda_entry_point: a missing function is null, and no error is latched") {
    machine const here;
    auto const    found = cuda_entry_point<void (*)()>("cuMakeCoffee", 10020);
    CHECK((found.call == nullptr));
    CHECK(found.why == cudaDriverEntryPointSymbolNotFound);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_entry_point: a driver that is too old is reported as that") {
    machine const here{{.old_driver = true}};
    auto const    found = cuda_entry_point<decltype(&::cuMemUnmap)>("cuMemUnmap", 10020);
    CHECK((found.call == nullptr));
    CHECK(found.why == cudaDriverEntryPointVersionNotSufficent);
}

TEST_CASE("cuda_entry_point: a lookup that fails is thrown") {
    machine const here;
    auto const    look = [] { (void)cuda_entry_point<void (*)()>("cuMemUnmap", 10020); };
    CHECK(tests::walk_failures(look, [] {}) == 2);
}
#endif
