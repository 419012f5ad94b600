// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_stream_view.hpp> // first: the header stands alone

#include "machine.hpp"
#include "slow_work.hpp"

#include <vram/base/core/worker.hpp>          // worker
#include <vram/cuda/core/cuda_stream_ids.hpp> // cuda_stream_ids

#include <concepts> // regular, convertible_to

using namespace vram;
using namespace vram::detail;
using tests::machine;

namespace {

/// A stream of another library.
struct foreign_stream {
    cudaStream_t               stream;
    [[nodiscard]] cudaStream_t get() const { return stream; }
};

/// Something else with a `get`.
struct foreign_pointer {
    [[nodiscard]] int* get() const { return nullptr; }
};

/// A stream that is being captured for a scope.
class captured_stream {
public:
    explicit captured_stream(cudaStreamCaptureMode mode  = cudaStreamCaptureModeGlobal,
                             unsigned              flags = cudaStreamNonBlocking) {
        cuda_check(cudaStreamCreateWithFlags(&stream_, flags));
        cuda_check(cudaStreamBeginCapture(stream_, mode));
    }
    /// Ends the capture; whether it was still good.
    bool end() {
        cudaGraph_t graph  = nullptr;
        bool const  intact = cudaStreamEndCapture(stream_, &graph) == cudaSuccess;
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
        cuda_check(cudaStreamDestroy(stream_));
        (void)cudaGetLastError();
        return intact;
    }
    [[nodiscard]] cuda_stream_view view() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
};

} // namespace

static_assert(std::regular<cuda_stream_view>);
static_assert(std::convertible_to<cudaStream_t, cuda_stream_view>);
static_assert(std::convertible_to<cuda_stream_view, cudaStream_t>);
static_assert(std::convertible_to<foreign_stream, cuda_stream_view>);
static_assert(!std::constructible_from<cuda_stream_view, foreign_pointer>);
static_assert(!std::constructible_from<cuda_stream_view, int>);
static_assert(!std::constructible_from<cuda_stream_view, bool>);
static_assert(!std::constructible_from<cuda_stream_view, std::nullptr_t>);
static_assert(std::is_trivially_copyable_v<cuda_stream_view>);

TEST_CASE("cuda_stream_view: streams of other libraries convert, and compare by handle") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    cuda_stream_view const view  = raw;
    cuda_stream_view const other = foreign_stream{raw};
    CHECK(view == other);
    CHECK(view == raw);
    CHECK(raw == view);
    CHECK(view != cuda_stream_view{});
    CHECK(cuda_stream_view{} == nullptr);
    CHECK(view.get() == raw);
    cudaStream_t const back = view;
    CHECK(back == raw);
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_view: an id is never reused, even if the handle is") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    auto const first = cuda_stream_view{raw}.id();
    cuda_check(cudaStreamDestroy(raw));
    cuda_check(cudaStreamCreate(&raw));
    CHECK(cuda_stream_view{raw}.id() != first);
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_view: the default streams have ids of their own, one for each thread") {
    machine const here;
    auto const    legacy = cuda_stream_view{cudaStreamLegacy}.id();
    auto const    mine   = cuda_stream_view{cudaStreamPerThread}.id();
    std::uint64_t other  = 0;
    worker{cuda_device{},
           [&] {
               cuda_check(cudaSetDevice(0));
               other = cuda_stream_view{cudaStreamPerThread}.id();
           }}
        .join();
    CHECK(legacy != mine);
    CHECK(legacy != other);
    CHECK(mine != other);
    auto const unnamed = cuda_stream_view{}.id();
    // Depends on the compiler's option for the default stream.
    CHECK((unnamed == legacy || unnamed == mine));
}

TEST_CASE("cuda_stream_view: it has the device of its stream") {
    machine const here;
    CHECK(cuda_stream_view{}.device() == cuda_device::current());
    if (tests::two_devices()) {
        cudaStream_t raw = nullptr;
        cuda_check(cudaSetDevice(1));
        cuda_check(cudaStreamCreate(&raw));
        CHECK(cuda_stream_view{}.device() == cuda_device{1});
        cuda_check(cudaSetDevice(0));
        CHECK(cuda_stream_view{raw}.device() == cuda_device{1});
        cuda_check(cudaStreamDestroy(raw));
    }
}

TEST_CASE("cuda_stream_view: done is false during the work, and true after it") {
    machine const    here;
    tests::slow_work work;
    cudaStream_t     raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    cuda_stream_view const s = raw;
    CHECK(s.done());
    work.enqueue(s);
    CHECK_FALSE(s.done());
    s.synchronize();
    CHECK(s.done());
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE(
    "cuda_stream_view: a captured stream is recognised, and a query does not break the capture") {
    machine const here;
    for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed}) {
        captured_stream        captured{mode};
        cuda_stream_view const s = captured.view();
        CHECK(s.capturing());
        // A non-blocking stream does not affect the default stream.
        CHECK_FALSE(cuda_stream_view{}.capturing());
        CHECK_THROWS_AS((void)s.done(), cuda_error);
        CHECK_THROWS_AS(s.synchronize(), cuda_error);
        CHECK(captured.end());
    }
}

TEST_CASE("cuda_stream_view: a captured stream has the id that it had before") {
    machine const here;
    cudaStream_t  raw   = nullptr;
    cudaGraph_t   graph = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    cuda_stream_view const s  = raw;
    auto const             id = s.id();
    cuda_check(cudaStreamBeginCapture(raw, cudaStreamCaptureModeGlobal));
    CHECK(s.id() == id);
    CHECK(s.device() == cuda_device::current());
    cuda_check(cudaStreamEndCapture(raw, &graph));
    cuda_check(cudaGraphDestroy(graph));
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_view: a stream without a query before its capture cannot be queried") {
    machine const here;
    cudaStream_t  raw   = nullptr;
    cudaGraph_t   graph = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    cuda_stream_ids::forget(raw); // a stream of an earlier test may have had that handle
    cuda_stream_view const s = raw;
    cuda_check(cudaStreamBeginCapture(raw, cudaStreamCaptureModeRelaxed));
    CHECK_THROWS_AS((void)s.id(), cuda_error);
    CHECK_THROWS_AS((void)s.device(), cuda_error);
    cuda_check(cudaStreamEndCapture(raw, &graph));
    cuda_check(cudaGraphDestroy(graph));
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE(
    "cuda_stream_view: a thread's own default stream is known in a capture if queried before") {
    machine const          here;
    cuda_stream_view const s     = cudaStreamPerThread; // means another stream on each thread
    cudaGraph_t            graph = nullptr;
    auto const             id    = s.id();
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed));
    CHECK(s.id() == id);
    CHECK(s.device() == cuda_device::current());
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_stream_view: the legacy default stream cannot be used while a blocking stream is "
          "captured") {
    machine const   here;
    captured_stream captured{cudaStreamCaptureModeGlobal, cudaStreamDefault};
    CHECK(cuda_stream_view{cudaStreamLegacy}.capturing());
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK_FALSE(cuda_stream_view{cudaStreamPerThread}.capturing());
    CHECK(captured.end());
    CHECK_FALSE(cuda_stream_view{cudaStreamLegacy}.capturing());
}

TEST_CASE("cuda_stream_view: another stream may be queried and waited for during a capture") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    cuda_stream_view const other = raw;
    captured_stream        captured;
    CHECK(other.done());
    CHECK_NOTHROW(other.synchronize());
    CHECK(other.id() != 0);
    CHECK(other.device() == cuda_device::current());
    CHECK(captured.end());
    cuda_check(cudaStreamDestroy(raw));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_stream_view: every error of the runtime is thrown") {
    machine const          here;
    auto const             nothing = [] {};
    cuda_stream_view const s;
    CHECK(tests::walk_failures([&] { (void)s.id(); }, nothing) == 4);
    CHECK(tests::walk_failures([&] { (void)s.device(); }, nothing) == 4);
    CHECK(tests::walk_failures([&] { (void)s.capturing(); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { (void)s.done(); }, nothing) == 4);
    CHECK(tests::walk_failures([&] { s.synchronize(); }, nothing) == 4);
}
#endif
