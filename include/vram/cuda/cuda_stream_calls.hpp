// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_calls` are questions to a stream, asked of the driver itself where that can be.

#include <vram/cuda/cuda_entry_point.hpp> // cuda_entry_point, cuda_error

#include <cuda.h>             // cuStreamQuery and the others: their types alone
#include <cuda_runtime_api.h> // cudaStreamQuery and the others

#include <cstdint> // uint64_t

namespace vram {

/// The runtime hands these questions on to the driver, which takes 35 to 55 ns of a question that
/// the driver answers in 8 to 17 (an H200 host, CUDA 13.0). A pool may ask at every call: who a
/// default stream is, or whether it is being captured. Whatever the driver will not answer, the
/// runtime is asked: it may have to make a context first, and latches what is wrong.
///
///     cudaError_t const status = cuda_stream_calls::here().query(stream);
///
/// Failure   the status, which is latched
/// Threads   any
/// Streams   null is the default stream: the thread's own where the program is compiled so
/// Cost      looked up once in a process; then 8 to 17 ns, and `query` 180
class cuda_stream_calls {
public:
    /// Only the runtime's.
    cuda_stream_calls() = default;

    /// The calls of this process.
    [[nodiscard]] static cuda_stream_calls const& here() noexcept {
        static cuda_stream_calls const found = look_up();
        return found;
    }
    /// Those that the driver has.
    [[nodiscard]] static cuda_stream_calls look_up() noexcept {
        constexpr unsigned since = 12000; // the last of them came with CUDA 12.0
        cuda_stream_calls  calls;
        find("cuStreamIsCapturing", since, calls.capturing_);
        find("cuStreamGetId", since, calls.id_);
        find("cuStreamQuery", since, calls.query_);
        find("cuThreadExchangeStreamCaptureMode", since, calls.exchange_mode_);
        return calls;
    }

    /// Whether work given to the stream would be captured, or would break a capture.
    cudaError_t capturing(cudaStream_t stream, bool& captures) const noexcept {
        if (capturing_ != nullptr) {
            CUstreamCaptureStatus found  = CU_STREAM_CAPTURE_STATUS_NONE;
            CUresult const        status = capturing_(explicit_name(stream), &found);
            if (status == CUDA_SUCCESS || status == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
                captures = status != CUDA_SUCCESS || found != CU_STREAM_CAPTURE_STATUS_NONE;
                return cudaSuccess;
            }
        }
        cudaStreamCaptureStatus found  = cudaStreamCaptureStatusNone;
        cudaError_t const       status = cudaStreamIsCapturing(stream, &found);
        captures = status == cudaErrorStreamCaptureImplicit || found != cudaStreamCaptureStatusNone;
        if (status != cudaErrorStreamCaptureImplicit) { return status; }
        cuda_error::clear(status);
        return cudaSuccess;
    }
    cudaError_t id(cudaStream_t stream, std::uint64_t& id) const noexcept {
        unsigned long long found = 0;
        if (id_ == nullptr || id_(explicit_name(stream), &found) != CUDA_SUCCESS) {
            cudaError_t const status = cudaStreamGetId(stream, &found);
            if (status != cudaSuccess) { return status; }
        }
        id = found;
        return cudaSuccess;
    }
    /// cudaErrorNotReady, which is not latched: there is still something to do.
    [[nodiscard]] cudaError_t query(cudaStream_t stream) const noexcept {
        if (query_ != nullptr) {
            CUresult const status = query_(explicit_name(stream));
            if (status == CUDA_SUCCESS) { return cudaSuccess; }
            if (status == CUDA_ERROR_NOT_READY) { return cudaErrorNotReady; }
        }
        return cudaStreamQuery(stream);
    }
    /// The calling thread's mode becomes `mode`, and that what it was.
    cudaError_t exchange_mode(cudaStreamCaptureMode& mode) const noexcept {
        auto wanted = static_cast<CUstreamCaptureMode>(mode);
        if (exchange_mode_ == nullptr || exchange_mode_(&wanted) != CUDA_SUCCESS) {
            return cudaThreadExchangeStreamCaptureMode(&mode);
        }
        mode = static_cast<cudaStreamCaptureMode>(wanted);
        return cudaSuccess;
    }

private:
    template <class Function>
    static void find(char const* name, unsigned since, Function& call) noexcept {
        try {
            call = cuda_entry_point<Function>(name, since).call;
        } catch (...) {} // the runtime's will do
    }
    /// The driver takes null for the legacy default stream, however the program is compiled.
    static cudaStream_t explicit_name(cudaStream_t stream) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
        return stream != nullptr ? stream : cudaStreamPerThread;
#else
        return stream != nullptr ? stream : cudaStreamLegacy;
#endif
    }

    decltype(&::cuStreamIsCapturing)               capturing_     = nullptr;
    decltype(&::cuStreamGetId)                     id_            = nullptr;
    decltype(&::cuStreamQuery)                     query_         = nullptr;
    decltype(&::cuThreadExchangeStreamCaptureMode) exchange_mode_ = nullptr;
};

static_assert(static_cast<int>(CU_STREAM_CAPTURE_MODE_GLOBAL) == cudaStreamCaptureModeGlobal);
static_assert(static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED) == cudaStreamCaptureModeRelaxed);
static_assert(static_cast<int>(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
              cudaStreamCaptureModeThreadLocal);

} // namespace vram
