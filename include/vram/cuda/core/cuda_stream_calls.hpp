// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_calls` are queries of a stream, made directly to the driver if possible.

#include <vram/cuda/core/cuda_entry_point.hpp> // cuda_entry_point, cuda_error

#include <cuda.h>             // cuStreamQuery and the others: their types alone
#include <cuda_runtime_api.h> // cudaStreamQuery and the others

#include <cstdint>

namespace vram {
namespace detail {

/// Queries of a stream, made through the driver because it is faster than the runtime. If the
/// driver refuses a query, the runtime is asked instead. A null handle means the program's default
/// stream.
///
/// Failure   Returns the status, and leaves the error latched in the runtime.
/// Threads   Any thread may call.
class cuda_stream_calls {
public:
    /// Makes an object without functions of the driver: each query calls the runtime.
    cuda_stream_calls() = default;

    /// Returns the process-wide object that calls the driver's functions for queries of streams.
    /// The first call of `here` looks up these functions.
    [[nodiscard]] static cuda_stream_calls const& here() noexcept {
        static cuda_stream_calls const found = look_up();
        return found;
    }
    /// Looks up the driver's functions for queries of streams, and returns an object that calls
    /// them. If a function is not found, the object calls the function of the runtime instead.
    [[nodiscard]] static cuda_stream_calls look_up() noexcept {
        // CUDA 12.0, the first version that has all functions which are looked up here.
        constexpr unsigned since = 12000;
        cuda_stream_calls  calls;
        find("cuStreamIsCapturing", since, calls.capturing_);
        find("cuStreamGetId", since, calls.id_);
        find("cuStreamQuery", since, calls.query_);
        find("cuThreadExchangeStreamCaptureMode", since, calls.exchange_mode_);
        return calls;
    }

    /// Sets `captures` to true if work on the stream would be captured, or would break a capture of
    /// another stream; otherwise to false. Returns the status of the query.
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
    /// Returns cudaSuccess if the work of the stream is complete, or cudaErrorNotReady if it is
    /// not. If the query fails, returns the error of the query. A later `cudaGetLastError` does not
    /// return cudaErrorNotReady.
    [[nodiscard]] cudaError_t query(cudaStream_t stream) const noexcept {
        if (query_ != nullptr) {
            CUresult const status = query_(explicit_name(stream));
            if (status == CUDA_SUCCESS) { return cudaSuccess; }
            if (status == CUDA_ERROR_NOT_READY) { return cudaErrorNotReady; }
        }
        return cudaStreamQuery(stream);
    }
    /// Sets the stream capture mode of the calling thread to `mode`, and then stores the previous
    /// mode in `mode`. Returns the status of the CUDA call.
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
        } catch (...) {} // `call` stays null: the runtime's function is used
    }
    /// Returns `stream`, or for null the handle of the program's default stream:
    /// `cudaStreamPerThread` or `cudaStreamLegacy`.
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

} // namespace detail
} // namespace vram
