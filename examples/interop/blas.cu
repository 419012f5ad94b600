// SPDX-License-Identifier: Apache-2.0
// Workspaces of cuBLAS and cuFFT from a stack, in the order of a stream.

#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <cublas_v2.h>
#include <cufft.h>

#include <vector>

using namespace vram;

namespace {

bool matrices(cuda_stream const& stream, pool<stream_ordered<cuda_resource>>& memory) {
    constexpr int            n = 256;
    auto                     a = make_array<float>(memory, stream, n * n);
    auto                     c = make_array<float>(memory, stream, n * n);
    std::vector<float> const ones(n * n, 1.0F);
    a.copy_from(ones);
    float const    one = 1.0F, zero = 0.0F;
    cublasHandle_t handle = nullptr;
    bool           right  = cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS;
    {
        // [cublas]
        buffer workspace{memory, stream, 32_MiB};
        cublasSetStream(handle, stream); // first: this call resets the workspace
        cublasSetWorkspace(handle, workspace.data(), workspace.size());
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), n, a.data(), n,
                    &zero, c.data(), n);
        cublasSetStream(handle, stream); // the handle no longer uses `workspace`, which may end
        // [/cublas]
        right = right && c.get(n * n - 1) == n;
    }
    cublasDestroy(handle);
    return right;
}

bool transform(cuda_stream const& stream, pool<stream_ordered<cuda_resource>>& memory) {
    constexpr int                   n    = 10'007; // a prime, for which cuFFT needs a work area
    auto                            data = make_array<cufftComplex>(memory, stream, n);
    std::vector<cufftComplex> const ones(n, cufftComplex{1.0F, 0.0F});
    data.copy_from(ones);
    cufftHandle plan = 0;
    {
        // [cufft]
        std::size_t bytes = 0;
        cufftCreate(&plan);
        cufftSetAutoAllocation(plan, 0); // before the plan is made
        cufftMakePlan1d(plan, n, CUFFT_C2C, 1, &bytes);
        buffer area{memory, stream, bytes};
        cufftSetWorkArea(plan, area.data());
        cufftSetStream(plan, stream);
        cufftExecC2C(plan, data.data(), data.data(), CUFFT_FORWARD); // before the end of `area`
        // [/cufft]
        stream.synchronize();
        cufftDestroy(plan);
    }
    cufftComplex const sum = data.get(0);
    return sum.x > n - 1.0F && sum.x < n + 1.0F;
}

} // namespace

int main() {
    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory;
    bool const right = matrices(stream, memory) && transform(stream, memory);
    return right && memory.usage().live == 0 ? 0 : 1;
}
