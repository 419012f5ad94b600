// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_capture_guard.hpp> // first: the header stands alone

#include "../machine.hpp"

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;
using tests::machine;

static_assert(!std::is_move_constructible_v<cuda_capture_guard>);

namespace {

cudaStreamCaptureMode mode_of_this_thread() {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cuda_check(cudaThreadExchangeStreamCaptureMode(&mode));
    cudaStreamCaptureMode same = mode;
    cuda_check(cudaThreadExchangeStreamCaptureMode(&same));
    return mode;
}

} // namespace

TEST_CASE("cuda_capture_guard: the capture mode is relaxed for a scope") {
    machine const here;
    CHECK(mode_of_this_thread() == cudaStreamCaptureModeGlobal);
    {
        cuda_capture_guard const relaxed;
        CHECK(mode_of_this_thread() == cudaStreamCaptureModeRelaxed);
        {
            cuda_capture_guard const again;
            CHECK(mode_of_this_thread() == cudaStreamCaptureModeRelaxed);
        }
        CHECK(mode_of_this_thread() == cudaStreamCaptureModeRelaxed);
    }
    CHECK(mode_of_this_thread() == cudaStreamCaptureModeGlobal);
}

TEST_CASE("cuda_capture_guard: memory can be allocated during a capture") {
    machine const here;
    cudaStream_t  s     = nullptr;
    cudaGraph_t   graph = nullptr;
    void*         p     = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));

    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    {
        cuda_capture_guard const relaxed;
        cuda_check(cudaMalloc(&p, 4096));
        cuda_check(cudaFree(p));
    }
    cuda_check(cudaStreamEndCapture(s, &graph));
    cuda_check(cudaGraphDestroy(graph));

    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMalloc(&p, 4096) ==
          cudaErrorStreamCaptureUnsupported); // and this is why there is a guard
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    cuda_check(cudaStreamDestroy(s));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE(
    "cuda_capture_guard: a failure to change the mode is reported, and the mode is not restored") {
    machine const here;
    for (std::uint64_t n : {1, 2}) {
        mishaps const told;
        doubles::cudart::fail("cudaThreadExchangeStreamCaptureMode", cudaErrorUnknown, n);
        { cuda_capture_guard const relaxed; }
        CHECK(doubles::cudart::forgive());
        CHECK(told.count(error_kind::platform_error) == 1);
        cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
        cuda_check(cudaThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == (n == 1 ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeRelaxed));
    }
}
#endif
