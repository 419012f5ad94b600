// SPDX-License-Identifier: Apache-2.0
// Linked into the executables whose tests need a GPU: without one, every test is skipped with a
// reason.

#include <cuda_runtime_api.h>

#include <string>

extern std::string (*vram_tests_unavailable)();

namespace {

std::string no_device() {
    int         count = 0;
    auto const  error = cudaGetDeviceCount(&count);
    char const* why   = error != cudaSuccess ? cudaGetErrorString(error) : "the driver lists none";
    return error == cudaSuccess && count > 0 ? std::string{}
                                             : std::string{"no CUDA device ("} + why + ")";
}

[[maybe_unused]] bool const installed = (vram_tests_unavailable = no_device, true);

} // namespace
