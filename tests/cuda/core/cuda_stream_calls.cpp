// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_stream_calls.hpp> // first: the header stands alone

#include "../machine.hpp"
#include "../slow_work.hpp"

#include <vram/base/core/worker.hpp> // worker
#include <vram/cuda/cuda_device.hpp> // cuda_device

using namespace vram;
using namespace vram::detail;
using tests::machine;

namespace {

/// The results of the driver and of the runtime, which must be equal.
template <class Check>
void ask_both(Check check) {
    SUBCASE("the driver") { check(cuda_stream_calls::look_up()); }
    SUBCASE("the runtime") { check(cuda_stream_calls{}); }
}

/// A stream for a scope that no code waits for.
struct raw_stream {
    raw_stream() { cuda_check(cudaStreamCreateWithFlags(&at, cudaStreamNonBlocking)); }
    raw_stream(raw_stream&&) = delete;
    ~raw_stream() { cuda_error::report(cudaStreamDestroy(at)); }

    cudaStream_t at = nullptr;
};

std::uint64_t id_of(cuda_stream_calls const& calls, cudaStream_t stream) {
    std::uint64_t id = 0;
    REQUIRE(calls.id(stream, id) == cudaSuccess);
    return id;
}

} // namespace

TEST_CASE("cuda_stream_calls: the driver and the runtime give equal results") {
    machine const    here;
    raw_stream const own;
    for (cudaStream_t const s : {own.at, cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        auto const driver = cuda_stream_calls::look_up();
        CHECK(id_of(driver, s) == id_of(cuda_stream_calls{}, s));
        bool captures = true;
        CHECK(driver.capturing(s, captures) == cudaSuccess);
        CHECK_FALSE(captures);
        CHECK(driver.query(s) == cudaSuccess);
    }
}

TEST_CASE("cuda_stream_calls: a stream with unfinished work is not done, and no error is latched") {
    machine const    here;
    raw_stream const own;
    ask_both([&](cuda_stream_calls const& calls) {
        tests::slow_work work;
        work.enqueue(own.at);
        CHECK(calls.query(own.at) == cudaErrorNotReady);
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        cuda_check(cudaStreamSynchronize(own.at));
        CHECK(calls.query(own.at) == cudaSuccess);
    });
}

TEST_CASE("cuda_stream_calls: a captured stream is recognised, and so is a legacy stream that it "
          "blocks") {
    machine const here;
    ask_both([](cuda_stream_calls const& calls) {
        cudaStream_t blocking = nullptr;
        cudaGraph_t  graph    = nullptr;
        bool         captures = false;
        cuda_check(cudaStreamCreate(&blocking));
        cuda_check(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
        CHECK(calls.capturing(blocking, captures) == cudaSuccess);
        CHECK(captures);
        captures = false;
        CHECK(calls.capturing(cudaStreamLegacy, captures) == cudaSuccess);
        CHECK(captures);
        CHECK(calls.capturing(cudaStreamPerThread, captures) == cudaSuccess);
        CHECK_FALSE(captures);
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        cuda_check(cudaStreamEndCapture(blocking, &graph));
        cuda_check(cudaGraphDestroy(graph));
        cuda_check(cudaStreamDestroy(blocking));
    });
}

TEST_CASE("cuda_stream_calls: an error that another call latched stays latched") {
    machine const    here;
    raw_stream const own;
    void*            p = nullptr;
    CHECK(cudaMalloc(&p, std::size_t{1} << 60) == cudaErrorMemoryAllocation);
    auto const driver   = cuda_stream_calls::look_up();
    bool       captures = false;
    CHECK(driver.capturing(own.at, captures) == cudaSuccess);
    CHECK(driver.query(own.at) == cudaSuccess);
    CHECK(id_of(driver, own.at) != 0);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("cuda_stream_calls: the capture mode of the thread is exchanged") {
    machine const here;
    ask_both([](cuda_stream_calls const& calls) {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        CHECK(calls.exchange_mode(mode) == cudaSuccess);
        CHECK(mode == cudaStreamCaptureModeGlobal);
        CHECK(cuda_stream_calls{}.exchange_mode(mode) == cudaSuccess); // both have the same meaning
        CHECK(mode == cudaStreamCaptureModeRelaxed);
    });
}

TEST_CASE("cuda_stream_calls: a new thread may query a stream, also of another device") {
    machine const here;
    raw_stream    first;
    cudaStream_t  second = nullptr;
    if (tests::two_devices()) {
        cuda_check(cudaSetDevice(1));
        cuda_check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        cuda_check(cudaSetDevice(0));
    }
    ask_both([&](cuda_stream_calls const& calls) {
        for (cudaStream_t const s : {first.at, cudaStreamLegacy, cudaStreamPerThread, second}) {
            std::uint64_t id       = 0;
            bool          captures = true;
            cudaError_t   done     = cudaErrorUnknown;
            worker{cuda_device{},
                   [&] {
                       cuda_error::report(calls.id(s, id));
                       cuda_error::report(calls.capturing(s, captures));
                       done = calls.query(s);
                   }}
                .join();
            CHECK(id != 0);
            CHECK_FALSE(captures);
            CHECK(done == cudaSuccess);
        }
    });
    if (second != nullptr) { cuda_check(cudaStreamDestroy(second)); }
}

TEST_CASE("cuda_stream_calls: they are looked up once") {
    machine const here;
    CHECK(&cuda_stream_calls::here() == &cuda_stream_calls::here());
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_stream_calls: if the driver lacks a function, the runtime is called") {
    using namespace doubles;
    auto const questions = [](cuda_stream_calls const& calls) {
        cudaStreamCaptureMode mode     = cudaStreamCaptureModeGlobal;
        bool                  captures = true;
        CHECK(calls.capturing(nullptr, captures) == cudaSuccess);
        CHECK_FALSE(captures);
        CHECK(id_of(calls, nullptr) != 0);
        CHECK(calls.query(nullptr) == cudaSuccess);
        CHECK(calls.exchange_mode(mode) == cudaSuccess);
    };
    SUBCASE("an old driver") {
        machine const here{{.old_driver = true}};
        questions(cuda_stream_calls::look_up());
    }
    SUBCASE("lookups that fail") {
        machine const here;
        cudart::fail("cudaGetDriverEntryPointByVersion", cudaErrorUnknown, 1, 4);
        auto const calls = cuda_stream_calls::look_up();
        CHECK(cudart::forgive());
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        questions(calls);
    }
}

TEST_CASE(
    "cuda_stream_calls: if the driver refuses, the runtime is called, and latches the error") {
    machine const    here;
    auto const       calls = cuda_stream_calls::look_up();
    raw_stream const own;
    auto const       refused = [&](char const* function, auto call) {
        doubles::cudart::fail(function, cudaErrorLaunchFailure);
        CHECK(call() == cudaErrorLaunchFailure);
        CHECK(doubles::cudart::forgive());
        CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
        CHECK(call() == cudaSuccess);
    };
    std::uint64_t         id       = 0;
    bool                  captures = false;
    cudaStreamCaptureMode mode     = cudaStreamCaptureModeGlobal;
    refused("cudaStreamIsCapturing", [&] { return calls.capturing(own.at, captures); });
    refused("cudaStreamGetId", [&] { return calls.id(own.at, id); });
    refused("cudaStreamQuery", [&] { return calls.query(own.at); });
    refused("cudaThreadExchangeStreamCaptureMode", [&] { return calls.exchange_mode(mode); });
}
#endif
