// SPDX-License-Identifier: Apache-2.0
// Questions to streams: calls of the driver, which are found by their names and latch nothing.

#include "machine.hpp"

#include <cuda.h>

using namespace doubles::cudart;

namespace {

/// The runtime's call without the runtime, and counted as that. Where it is to fail the driver says
/// so first, and whoever asks the runtime then hears why.
template <class Call>
CUresult ask(char const* function, Call call) noexcept {
    if (calls_book::here().dooms(function)) { return CUDA_ERROR_UNKNOWN; }
    cudaError_t const before = this_thread().latched;
    cudaError_t const status = call();
    this_thread().latched    = before;
    return static_cast<CUresult>(status); // the same numbers
}

CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus* found) {
    return ask("cudaStreamIsCapturing", [&] {
        cudaStreamCaptureStatus now{};
        cudaError_t const       status = cudaStreamIsCapturing(stream, &now);
        if (status == cudaSuccess) { *found = static_cast<CUstreamCaptureStatus>(now); }
        return status;
    });
}
CUresult CUDAAPI get_id(CUstream stream, unsigned long long* id) {
    return ask("cudaStreamGetId", [&] { return cudaStreamGetId(stream, id); });
}
CUresult CUDAAPI query(CUstream stream) {
    return ask("cudaStreamQuery", [&] { return cudaStreamQuery(stream); });
}
CUresult CUDAAPI exchange_mode(CUstreamCaptureMode* mode) {
    return ask("cudaThreadExchangeStreamCaptureMode", [&] {
        auto              wanted = static_cast<cudaStreamCaptureMode>(*mode);
        cudaError_t const status = cudaThreadExchangeStreamCaptureMode(&wanted);
        *mode                    = static_cast<CUstreamCaptureMode>(wanted);
        return status;
    });
}

} // namespace

void* doubles::cudart::stream_question(std::string_view name) {
    if (name == "cuStreamIsCapturing") { return reinterpret_cast<void*>(is_capturing); }
    if (name == "cuStreamGetId") { return reinterpret_cast<void*>(get_id); }
    if (name == "cuStreamQuery") { return reinterpret_cast<void*>(query); }
    if (name == "cuThreadExchangeStreamCaptureMode") {
        return reinterpret_cast<void*>(exchange_mode);
    }
    return nullptr;
}
