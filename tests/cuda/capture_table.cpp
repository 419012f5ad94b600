// SPDX-License-Identifier: Apache-2.0
// The calls about a stream that is being captured: which are refused, and which of those invalidate
// the capture. The rows are those measured on an H100 with CUDA 13.0, by the capturing thread and
// by another one. The double of the runtime must answer as the device does.

#include "machine.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <utility>

namespace capture_table {

using tests::machine;

void cuda_check(cudaError_t status) {
    CAPTURE(cudaGetErrorName(status));
    REQUIRE(status == cudaSuccess);
}

/// A stream `s`, which is captured, with an event `before` recorded on it before, and another
/// stream `t` with an event `elsewhere`.
struct world {
    cudaStream_t s = nullptr, t = nullptr;
    cudaEvent_t  before = nullptr, elsewhere = nullptr, inside = nullptr;
    void*        p = nullptr;

    world() {
        cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        cuda_check(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
        for (cudaEvent_t* e : {&before, &elsewhere, &inside}) {
            cuda_check(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
        }
        cuda_check(cudaEventRecord(before, s));
        cuda_check(cudaEventRecord(elsewhere, t));
        cuda_check(cudaStreamSynchronize(s));
        cuda_check(cudaStreamSynchronize(t));
    }
    world(world const&) = delete;
    ~world() {
        (void)cudaGetLastError();
        (void)cudaFree(p);
        for (cudaEvent_t const e : {before, elsewhere, inside}) { (void)cudaEventDestroy(e); }
        (void)cudaStreamDestroy(s);
        (void)cudaStreamDestroy(t);
        (void)cudaGetLastError();
    }
};

cudaStreamCaptureStatus status_of(cudaStream_t s) {
    cudaStreamCaptureStatus status{};
    cuda_check(cudaStreamIsCapturing(s, &status));
    return status;
}

using call = std::function<cudaError_t(world&)>;

/// Returns the result of the call in the relaxed mode of the calling thread.
cudaError_t relaxed(world& w, call const& what) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cuda_check(cudaThreadExchangeStreamCaptureMode(&mode));
    cudaError_t const status = what(w);
    cuda_check(cudaThreadExchangeStreamCaptureMode(&mode));
    return status;
}

/// True for each case in which the call is refused and invalidates the capture: by another thread
/// and by the capturing one, of a capture in thread-local and in global mode.
struct verdicts {
    bool local_other, local_own, global_other, global_own;
};
constexpr verdicts never{false, false, false, false};
constexpr verdicts always{true, true, true, true};
/// Unsafe calls: permitted to another thread if the mode is thread-local.
constexpr verdicts unsafe{false, true, true, true};

/// Makes the call during a capture in each of the four cases.
void expect(char const* name, verdicts const& broken, call const& what) {
    CAPTURE(name);
    auto const one = [&](cudaStreamCaptureMode mode, bool own, bool refused) {
        CAPTURE(mode);
        CAPTURE(own);
        world w;
        cuda_check(cudaStreamBeginCapture(w.s, mode));
        cudaError_t status = cudaSuccess;
        if (own) {
            status = what(w);
        } else {
            std::thread{[&] {
                status = what(w);
                (void)cudaGetLastError();
            }}.join();
        }
        CHECK((status != cudaSuccess) == refused);
        (void)cudaGetLastError();
        cudaGraph_t       graph = nullptr;
        cudaError_t const end   = cudaStreamEndCapture(w.s, &graph);
        CHECK(end == (refused ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
        (void)cudaGetLastError();
    };
    one(cudaStreamCaptureModeThreadLocal, false, broken.local_other);
    one(cudaStreamCaptureModeThreadLocal, true, broken.local_own);
    one(cudaStreamCaptureModeGlobal, false, broken.global_other);
    one(cudaStreamCaptureModeGlobal, true, broken.global_own);
}

cudaError_t get_id(world& w) {
    unsigned long long id = 0;
    return cudaStreamGetId(w.s, &id);
}
cudaError_t allocate(world& w) { return cudaMalloc(&w.p, 4096); }

TEST_CASE("captures: a query of the captured stream, or a wait for it, is refused and breaks it") {
    machine const here;
    expect("cudaStreamQuery", always, [](world& w) { return cudaStreamQuery(w.s); });
    expect("cudaStreamSynchronize", always, [](world& w) { return cudaStreamSynchronize(w.s); });
    expect("cudaStreamGetId", always, get_id);
#if CUDART_VERSION >= 12080
    expect("cudaStreamGetDevice", always, [](world& w) {
        int device = 0;
        return cudaStreamGetDevice(w.s, &device);
    });
#endif
    expect("cudaStreamQuery in relaxed mode", always,
           [](world& w) { return relaxed(w, [](world& of) { return cudaStreamQuery(of.s); }); });
    expect("cudaStreamIsCapturing", never, [](world& w) {
        auto              state  = cudaStreamCaptureStatusNone;
        cudaError_t const status = cudaStreamIsCapturing(w.s, &state);
        CHECK(state == cudaStreamCaptureStatusActive);
        return status;
    });
    expect("cudaDeviceSynchronize", always, [](world&) { return cudaDeviceSynchronize(); });
}

TEST_CASE("captures: an event that was recorded before the capture") {
    machine const here;
    expect("cudaEventQuery", unsafe, [](world& w) { return cudaEventQuery(w.before); });
    expect("cudaEventSynchronize", unsafe, [](world& w) { return cudaEventSynchronize(w.before); });
    expect("cudaEventQuery in relaxed mode", never, [](world& w) {
        return relaxed(w, [](world& of) { return cudaEventQuery(of.before); });
    });
    expect("cudaEventSynchronize in relaxed mode", never, [](world& w) {
        return relaxed(w, [](world& of) { return cudaEventSynchronize(of.before); });
    });
    expect("cudaStreamWaitEvent", never,
           [](world& w) { return cudaStreamWaitEvent(w.t, w.before, 0); });
}

TEST_CASE("captures: an event that is recorded during the capture") {
    machine const here;
    expect("cudaEventRecord", never, [](world& w) { return cudaEventRecord(w.inside, w.s); });
    expect("cudaEventQuery of it", always, [](world& w) {
        cuda_check(cudaEventRecord(w.inside, w.s));
        cudaError_t const status = cudaEventQuery(w.inside);
        CHECK(status == cudaErrorCapturedEvent);
        return status;
    });
    expect("a record on another stream", never, [](world& w) {
        cuda_check(cudaEventRecord(w.inside, w.s));
        cuda_check(cudaEventRecord(w.inside, w.t));
        return relaxed(w, [](world& of) { return cudaEventSynchronize(of.inside); });
    });
    expect("cudaStreamWaitEvent of another stream, which joins", never, [](world& w) {
        cuda_check(cudaEventRecord(w.inside, w.s));
        cudaError_t const status = cudaStreamWaitEvent(w.t, w.inside, 0);
        auto              state  = cudaStreamCaptureStatusNone;
        cuda_check(cudaStreamIsCapturing(w.t, &state));
        CHECK(state == cudaStreamCaptureStatusActive);
        // Joins the first stream again, so that the capture can end.
        cuda_check(cudaEventRecord(w.inside, w.t));
        cuda_check(cudaStreamWaitEvent(w.s, w.inside, 0));
        return status;
    });
}

TEST_CASE("captures: the end on another thread is refused, and ends the capture without a graph") {
    machine const here;
    for (cudaStreamCaptureMode const mode :
         {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
          cudaStreamCaptureModeRelaxed}) {
        CAPTURE(static_cast<int>(mode));
        bool const  relaxed = mode == cudaStreamCaptureModeRelaxed;
        world       w;
        cudaGraph_t graph = nullptr;
        cudaError_t ended = cudaSuccess;
        cuda_check(cudaStreamBeginCapture(w.s, mode));
        cuda_check(cudaEventRecord(w.inside, w.s));
        cuda_check(cudaStreamWaitEvent(w.t, w.inside, 0));
        cuda_check(cudaEventRecord(w.elsewhere, w.t));
        cuda_check(cudaStreamWaitEvent(w.s, w.elsewhere, 0));
        std::thread{[&] { ended = cudaStreamEndCapture(w.s, &graph); }}.join();
        CHECK(ended == (relaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread));
        CHECK((graph != nullptr) == relaxed);
        CHECK(status_of(w.s) == cudaStreamCaptureStatusNone);
        CHECK(status_of(w.t) == cudaStreamCaptureStatusNone);
        CHECK(cudaStreamSynchronize(w.s) == cudaSuccess);
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
    }
}

TEST_CASE("captures: a stream may be destroyed during the capture, the first one ends it") {
    machine const here;
    world         w;
    cudaStream_t  gone  = nullptr;
    cudaGraph_t   graph = nullptr;
    cuda_check(cudaMalloc(&w.p, 1));
    for (bool const joins : {false, true}) {
        CAPTURE(joins);
        cuda_check(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
        cuda_check(cudaStreamBeginCapture(w.s, cudaStreamCaptureModeGlobal));
        cuda_check(cudaEventRecord(w.inside, w.s));
        cuda_check(cudaStreamWaitEvent(gone, w.inside, 0));
        cuda_check(cudaMemsetAsync(w.p, 0, 1, gone)); // without work, it need not be joined
        cuda_check(cudaEventRecord(w.elsewhere, gone));
        if (joins) { cuda_check(cudaStreamWaitEvent(w.s, w.elsewhere, 0)); }
        cuda_check(cudaStreamDestroy(gone));
        CHECK(status_of(w.s) == cudaStreamCaptureStatusActive);
        CHECK(cudaStreamEndCapture(w.s, &graph) ==
              (joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
        (void)cudaGetLastError();
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(std::exchange(graph, nullptr))); }
    }
    cuda_check(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
    cuda_check(cudaStreamBeginCapture(gone, cudaStreamCaptureModeGlobal));
    cuda_check(cudaEventRecord(w.inside, gone));
    cuda_check(cudaStreamWaitEvent(w.t, w.inside, 0));
    cuda_check(cudaStreamDestroy(gone));
    CHECK(status_of(w.t) == cudaStreamCaptureStatusNone);
    CHECK(cudaStreamEndCapture(w.t, &graph) == cudaErrorIllegalState);
}

TEST_CASE("captures: calls about other objects") {
    machine const here;
    expect("cudaMalloc", unsafe, allocate);
    expect("cudaMalloc in relaxed mode", never, [](world& w) { return relaxed(w, allocate); });
    expect("cudaStreamQuery of another stream", unsafe,
           [](world& w) { return cudaStreamQuery(w.t); });
    expect("cudaEventQuery of an event of another stream", unsafe,
           [](world& w) { return cudaEventQuery(w.elsewhere); });
}

} // namespace capture_table
