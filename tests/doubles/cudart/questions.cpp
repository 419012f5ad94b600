// SPDX-License-Identifier: Apache-2.0
// Queries of streams: functions of the driver, which are found by name and latch no error.

#include "machine.hpp"

#include <cuda.h>

using namespace doubles::cudart;

namespace {

/// Implements a query without the runtime, and counts it as the runtime's function. If it is
/// planned to fail, the driver fails first, and the runtime's function then returns the reason.
template <class Call>
CUresult ask(char const* function, Call call) noexcept {
    if (calls_book::here().dooms(function)) { return CUDA_ERROR_UNKNOWN; }
    cudaError_t const before = this_thread().latched;
    cudaError_t const status = call();
    this_thread().latched    = before;
    return static_cast<CUresult>(status); // the codes are equal
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

// The driver's primary contexts. These functions are not counted and never fail.

CUresult CUDAAPI context_state(CUdevice device, unsigned* flags, int* active) {
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    *flags  = 0;
    *active = m.contexts[static_cast<std::size_t>(device)].active ? 1 : 0;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI context_retain(CUcontext* context, CUdevice device) {
    // The handle does not change by a reset.
    *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device + 1));
    return CUDA_SUCCESS;
}
CUresult CUDAAPI context_release(CUdevice) { return CUDA_SUCCESS; }
CUresult CUDAAPI context_id(CUcontext context, unsigned long long* id) {
    machine&               m = machine::here();
    std::scoped_lock const held{m.mutex};
    *id = m.contexts[reinterpret_cast<std::uintptr_t>(context) - 1].id;
    return CUDA_SUCCESS;
}

} // namespace

void* doubles::cudart::stream_question(std::string_view name) {
    if (name == "cuStreamIsCapturing") { return reinterpret_cast<void*>(is_capturing); }
    if (name == "cuStreamGetId") { return reinterpret_cast<void*>(get_id); }
    if (name == "cuStreamQuery") { return reinterpret_cast<void*>(query); }
    if (name == "cuThreadExchangeStreamCaptureMode") {
        return reinterpret_cast<void*>(exchange_mode);
    }
    if (name == "cuDevicePrimaryCtxGetState") { return reinterpret_cast<void*>(context_state); }
    if (name == "cuDevicePrimaryCtxRetain") { return reinterpret_cast<void*>(context_retain); }
    if (name == "cuDevicePrimaryCtxRelease") { return reinterpret_cast<void*>(context_release); }
    if (name == "cuCtxGetId") { return reinterpret_cast<void*>(context_id); }
    return nullptr;
}
