// SPDX-License-Identifier: Apache-2.0
// The table of calls that make the host wait (examples/waits_of_calls.cpp), on a GPU: each call is
// made while a kernel runs on the stream of the call, on another blocking stream, or on another
// non-blocking stream. The kernel ends after 40 ms of real time; a call that returns before the end
// did not wait. Not for compute-sanitizer, under which launches of kernels may wait.

#include <vram/cuda/cuda.hpp>

#include "machine.hpp"

#include <doctest/doctest.h>

#include <chrono>     // milliseconds
#include <cstddef>    // size_t
#include <functional> // function
#include <string>     // string
#include <thread>     // thread
#include <utility>    // exchange
#include <vector>     // vector

using namespace vram;

namespace waits_of_calls {

constexpr std::size_t most = std::size_t{4} << 20; // of the copies
constexpr std::size_t KiB = 1024, MiB = KiB * KiB;

/// Runs until the host writes `*end`.
__global__ void run_until(int volatile* end) {
    while (*end == 0) {}
}
__global__ void do_nothing() {}

void check(cudaError_t e) { cuda_check(e); }

enum class runs_on { own, blocking, other };

/// The objects that a call uses, all of which exist before the kernel starts.
struct scene {
    scene() {
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        check(cudaStreamCreate(&blocking));
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        check(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
        for (void** p : {&device, &more}) { check(cudaMalloc(p, most)); }
        for (void** p : {&pinned, &more_pinned}) { check(cudaMallocHost(p, most)); }
        check(cudaMalloc(&given, KiB));
        check(cudaMallocHost(&given_pinned, KiB));
        check(cudaMallocManaged(&given_managed, KiB));
        check(cudaMallocAsync(&given_async, KiB, stream));
        check(cudaHostAlloc(reinterpret_cast<void**>(&end), sizeof(int), cudaHostAllocMapped));
        *end = 0;
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        do_nothing<<<1, 1, 0, stream>>>();
        check(cudaStreamEndCapture(stream, &graph));
        check(cudaGraphInstantiate(&run, graph, 0));
        check(cudaGraphUpload(run, stream));
        check(cudaDeviceSynchronize());
    }
    scene(scene const&) = delete;
    ~scene() {
        check(cudaDeviceSynchronize());
        check(cudaGraphExecDestroy(run));
        check(cudaGraphDestroy(graph));
        for (void* p : {device, more, given, extra, given_managed, extra_managed}) {
            check(cudaFree(p));
        }
        for (void* p : {pinned, more_pinned, given_pinned, extra_pinned}) {
            check(cudaFreeHost(p));
        }
        for (void* p : {given_async, extra_async}) {
            if (p != nullptr) { check(cudaFreeAsync(p, other)); }
        }
        check(cudaFreeHost(end));
        for (cudaStream_t s : {stream, other, blocking}) {
            if (s != nullptr) { check(cudaStreamDestroy(s)); }
        }
        for (cudaEvent_t e : {event, ended}) {
            if (e != nullptr) { check(cudaEventDestroy(e)); }
        }
    }

    cudaStream_t      stream = nullptr, other = nullptr, blocking = nullptr;
    cudaEvent_t       event = nullptr, ended = nullptr;
    cudaGraph_t       graph  = nullptr;
    cudaGraphExec_t   run    = nullptr;
    void *            device = nullptr, *more = nullptr, *pinned = nullptr, *more_pinned = nullptr;
    void *            given = nullptr, *given_pinned = nullptr, *given_managed = nullptr;
    void *            given_async = nullptr, *extra = nullptr, *extra_pinned = nullptr;
    void *            extra_managed = nullptr, *extra_async = nullptr;
    int*              end      = nullptr;
    std::vector<char> pageable = std::vector<char>(most);
};

struct row {
    char const* call;
    bool        null; ///< true if the call uses the legacy default stream
    /// For a kernel on the stream of the call, on a blocking and on a non-blocking stream: `w` if
    /// the call returns after the kernel ended, `-` if before.
    char const*                 cells;
    std::function<void(scene&)> call_it;
};

std::vector<row> rows() {
    auto const copy = [](void* scene::* to, void* scene::* from) {
        return [=](scene& s) {
            check(cudaMemcpyAsync(s.*to, s.*from, KiB, cudaMemcpyDefault, s.stream));
        };
    };
    auto const copy_sync = [](void* scene::* to, void* scene::* from) {
        return [=](scene& s) { check(cudaMemcpy(s.*to, s.*from, KiB, cudaMemcpyDefault)); };
    };
    auto const D = &scene::device;
    auto const P = &scene::pinned;
    return {
        {"cudaMemcpyAsync, pinned to device", false, "---", copy(D, P)},
        {"cudaMemcpyAsync, device to pinned", false, "---", copy(P, D)},
        {"cudaMemcpyAsync, within a device", false, "---", copy(&scene::more, D)},
        {"cudaMemcpyAsync, pinned to pinned", false, "w--", copy(&scene::more_pinned, P)},
        {"cudaMemcpyAsync, pageable to device, 1 MiB", false, "---",
         [](scene& s) {
             check(cudaMemcpyAsync(s.device, s.pageable.data(), MiB, cudaMemcpyDefault, s.stream));
         }},
        {"cudaMemcpyAsync, pageable to device, 4 MiB", false, "w--",
         [](scene& s) {
             check(cudaMemcpyAsync(s.device, s.pageable.data(), most, cudaMemcpyDefault, s.stream));
         }},
        {"cudaMemcpyAsync, device to pageable", false, "w--",
         [](scene& s) {
             check(cudaMemcpyAsync(s.pageable.data(), s.device, KiB, cudaMemcpyDefault, s.stream));
         }},
        {"cudaMemcpyBatchAsync, pinned to device", false, "---",
         [](scene& s) {
             void* const       to[]    = {s.device};
             void const* const from[]  = {s.pinned};
             std::size_t const bytes[] = {KiB};
             CHECK(cuda_platform::copy_batch(s.stream, to, from, bytes));
         }},
        {"cudaMemcpy, pinned to device", true, "ww-", copy_sync(D, P)},
        {"cudaMemcpy, device to pinned", true, "ww-", copy_sync(P, D)},
        {"cudaMemcpy, within a device", true, "---", copy_sync(&scene::more, D)},
        {"cudaMemcpy, pinned to pinned", true, "ww-", copy_sync(&scene::more_pinned, P)},
        {"cudaMemcpy, pageable to device", true, "ww-",
         [](scene& s) { check(cudaMemcpy(s.device, s.pageable.data(), KiB, cudaMemcpyDefault)); }},
        {"cudaMemcpy, device to pageable", true, "ww-",
         [](scene& s) { check(cudaMemcpy(s.pageable.data(), s.device, KiB, cudaMemcpyDefault)); }},
        {"cudaMemsetAsync, device", false, "---",
         [](scene& s) { check(cudaMemsetAsync(s.device, 0, KiB, s.stream)); }},
        {"cudaMemsetAsync, pinned", false, "---",
         [](scene& s) { check(cudaMemsetAsync(s.pinned, 0, KiB, s.stream)); }},
        {"cudaMemsetAsync, managed", false, "---",
         [](scene& s) { check(cudaMemsetAsync(s.given_managed, 0, KiB, s.stream)); }},
        {"cudaMalloc", true, "---", [](scene& s) { check(cudaMalloc(&s.extra, KiB)); }},
        {"cudaFree", true, "www",
         [](scene& s) { check(cudaFree(std::exchange(s.given, nullptr))); }},
        {"cudaMallocHost", true, "---",
         [](scene& s) { check(cudaMallocHost(&s.extra_pinned, KiB)); }},
        {"cudaFreeHost", true, "www",
         [](scene& s) { check(cudaFreeHost(std::exchange(s.given_pinned, nullptr))); }},
        {"cudaMallocManaged", true, "---",
         [](scene& s) { check(cudaMallocManaged(&s.extra_managed, KiB)); }},
        {"cudaFree, managed", true, "www",
         [](scene& s) { check(cudaFree(std::exchange(s.given_managed, nullptr))); }},
        {"cudaMallocAsync", false, "---",
         [](scene& s) { check(cudaMallocAsync(&s.extra_async, KiB, s.stream)); }},
        {"cudaFreeAsync", false, "---",
         [](scene& s) { check(cudaFreeAsync(std::exchange(s.given_async, nullptr), s.stream)); }},
        {"cudaLaunchKernel", false, "---", [](scene& s) { do_nothing<<<1, 1, 0, s.stream>>>(); }},
        {"cudaLaunchHostFunc", false, "---",
         [](scene& s) { check(cudaLaunchHostFunc(s.stream, [](void*) {}, nullptr)); }},
        {"cudaGraphLaunch", false, "---",
         [](scene& s) { check(cudaGraphLaunch(s.run, s.stream)); }},
        {"cudaEventRecord, cudaStreamWaitEvent", false, "---",
         [](scene& s) {
             check(cudaEventRecord(s.event, s.stream));
             check(cudaStreamWaitEvent(s.stream, s.event));
         }},
        {"cudaStreamCreate, cudaEventCreate", false, "---",
         [](scene&) {
             cudaStream_t stream = nullptr;
             cudaEvent_t  event  = nullptr;
             check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
             check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
             check(cudaEventDestroy(event));
             check(cudaStreamDestroy(stream));
         }},
        {"cudaStreamDestroy, cudaEventDestroy", false, "---",
         [](scene& s) {
             check(cudaStreamDestroy(std::exchange(s.stream, nullptr)));
             check(cudaEventDestroy(std::exchange(s.event, nullptr)));
         }},
        {"cudaStreamQuery, cudaEventQuery", false, "---",
         [](scene& s) {
             static_cast<void>(cudaStreamQuery(s.stream));
             static_cast<void>(cudaEventQuery(s.ended));
         }},
        {"cudaStreamSynchronize", false, "w--",
         [](scene& s) { check(cudaStreamSynchronize(s.stream)); }},
        {"cudaStreamSynchronize, legacy stream", true, "ww-",
         [](scene&) { check(cudaStreamSynchronize(nullptr)); }},
        {"cudaEventSynchronize, event after the kernel", false, "www",
         [](scene& s) { check(cudaEventSynchronize(s.ended)); }},
        {"cudaDeviceSynchronize", false, "www", [](scene&) { check(cudaDeviceSynchronize()); }},
    };
}

/// Makes the call while the kernel runs. Returns `w` if the kernel ended before the call returned.
char cell(row const& r, runs_on where) {
    scene              s;
    cudaStream_t const on = where == runs_on::own        ? (r.null ? nullptr : s.stream)
                            : where == runs_on::blocking ? s.blocking
                                                         : s.other;
    run_until<<<1, 1, 0, on>>>(s.end);
    check(cudaEventRecord(s.ended, on));
    std::thread end{[&] {
        std::this_thread::sleep_for(std::chrono::milliseconds{40});
        *const_cast<int volatile*>(s.end) = 1;
    }};
    r.call_it(s);
    bool const ended = cudaEventQuery(s.ended) == cudaSuccess;
    end.join();
    return ended ? 'w' : '-';
}

TEST_CASE("a GPU: the calls that make the host wait are those of the simulated device") {
    tests::machine m;
    for (row const& r : rows()) {
        scene warm; // what the first call of a kind loads does not count
        r.call_it(warm);
    }
    for (row const& r : rows()) {
        std::string found;
        for (runs_on const where : {runs_on::own, runs_on::blocking, runs_on::other}) {
            found += cell(r, where);
        }
        INFO(r.call);
        CHECK(found == r.cells);
    }
}

} // namespace waits_of_calls
