// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_freed_streams.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda_fill.hpp>
#include <vram/cuda/cuda_resource.hpp>

#include <atomic>     // atomic
#include <chrono>     // us
#include <cstddef>    // byte
#include <functional> // cref
#include <optional>   // optional
#include <thread>     // thread
#include <utility>    // in_place

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using tests::machine;

TEST_CASE("cuda_freed_streams: it waits once for each stream that was recorded and not forgotten") {
    machine const      here;
    cuda_resource      mr;
    cuda_stream const  s, t;
    void* const        p = mr.allocate_sync(1 << 20);
    cuda_freed_streams freed;
    cuda_fill(s, p, std::byte{1}, 1 << 20);
    freed.note(s);
    freed.note(s);
    freed.note(t);
    freed.forget(t);
    freed.forget(t);
    cuda_freed_streams moved{std::move(freed)};
    moved.synchronize();
    CHECK(s.view().done());
    moved.synchronize();
    mr.deallocate_sync(p, 1 << 20);
}

TEST_CASE("cuda_freed_streams: it waits for a stream that has ended, and not for a captured one") {
    machine const              here;
    cuda_resource              mr;
    std::optional<cuda_stream> s{std::in_place};
    cuda_stream const          captured;
    void* const                p = mr.allocate_sync(1 << 20);
    cuda_freed_streams         freed;
    cuda_event                 after;
    cuda_fill(*s, p, std::byte{1}, 1 << 20);
    after.record(*s);
    freed.note(*s);
    freed.note(captured);
    s.reset();
    cuda_check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    freed.synchronize();
    CHECK(after.done());
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    cuda_check(cudaGraphDestroy(graph));
    mr.deallocate_sync(p, 1 << 20);
}

TEST_CASE("cuda_freed_streams: a stream that was captured is waited for the next time") {
    machine const      here;
    cuda_resource      mr;
    cuda_stream const  s;
    void* const        p = mr.allocate_sync(1 << 20);
    cuda_freed_streams freed;
    cuda_fill(s, p, std::byte{1}, 1 << 20);
    freed.note(s);
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    freed.synchronize();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    cuda_check(cudaGraphDestroy(graph));
    freed.synchronize();
    CHECK(s.view().done());
    mr.deallocate_sync(p, 1 << 20);
}

TEST_CASE("cuda_freed_streams: a thread that noted a stream before notes it again after it left") {
    machine const                     here;
    cuda_stream const                 s;
    std::optional<cuda_freed_streams> freed{std::in_place};
    auto const                        noted = [&] {
        freed->note(s);
        freed->note(s);
        return !freed->empty();
    };
    CHECK(noted());
    freed->synchronize();
    CHECK(freed->empty());
    CHECK(noted());
    freed->forget(s);
    CHECK(freed->empty());
    CHECK(noted());
    freed->retire(s);
    freed->synchronize();
    CHECK(freed->empty());
    CHECK(noted());
    freed.emplace(); // another object at the same address
    CHECK(freed->empty());
    CHECK(noted());
    cuda_freed_streams other;
    other.note(s);
    *freed = cuda_freed_streams{};
    CHECK(freed->empty());
    CHECK(noted());
    other = std::move(*freed);
    freed.emplace();
    CHECK(noted());
    CHECK_FALSE(other.empty());
}

TEST_CASE("cuda_freed_streams: frees of many threads are waited for, also those during a trim") {
    machine const      here;
    cuda_freed_streams freed;
    cuda_stream const  streams[2];
    auto const         note = [&](cuda_stream const& s) {
        for (int i = 0; i < 2000; ++i) { freed.note(s); }
    };
    std::thread one{note, std::cref(streams[0])}, two{note, std::cref(streams[1])};
    for (int i = 0; i < 50; ++i) { freed.synchronize(); }
    one.join();
    two.join();
    freed.synchronize();
    CHECK(freed.empty());
    freed.note(streams[0]);
    CHECK_FALSE(freed.empty());
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_freed_streams: streams that have ended and are done are not kept") {
    machine const      here;
    cuda_freed_streams freed;
    for (int i = 0; i != 100; ++i) {
        cuda_stream const s;
        freed.note(s);
        CHECK(doubles::cudart::out().streams <= 17);
    }
}

TEST_CASE("cuda_freed_streams: a wait that fails loses no stream") {
    machine const here;
    cuda_resource mr;
    auto* const   p = static_cast<std::byte*>(mr.allocate_sync(3 << 20));
    for (char const* const call :
         {"cudaEventSynchronize", "cudaEventCreateWithFlags", "cudaEventRecord"}) {
        for (std::uint64_t n = 1; n <= 3; ++n) {
            CAPTURE(call);
            CAPTURE(n);
            cuda_freed_streams freed;
            cuda_stream const  one, two;
            cudaStream_t       raw = nullptr;
            cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
            std::byte* at = p;
            for (cudaStream_t const each : {raw, one.get(), two.get()}) {
                cuda_fill(each, at, std::byte{1}, 1 << 20);
                freed.note(each);
                at += 1 << 20;
            }
            freed.retire(raw);
            cuda_check(cudaStreamDestroy(raw));
            doubles::cudart::fail(call, cudaErrorUnknown, n);
            bool threw = false;
            try {
                freed.synchronize();
            } catch (cuda_error const&) { threw = true; }
            CHECK(threw == doubles::cudart::forgive());
            CHECK(freed.empty() == !threw);
            auto const waits = doubles::cudart::calls("cudaEventSynchronize");
            freed.synchronize();
            CHECK(freed.empty());
            CHECK(doubles::cudart::calls("cudaEventSynchronize") >= waits + (threw ? 1 : 0));
            CHECK(one.view().done());
            CHECK(two.view().done());
            cuda_check(cudaDeviceSynchronize());
        }
    }
    mr.deallocate_sync(p, 3 << 20);
}

TEST_CASE("cuda_freed_streams: retire of a captured stream does not break the capture if no event "
          "can be created") {
    machine const      here;
    cuda_freed_streams freed;
    cuda_stream const  s;
    freed.note(s);
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    doubles::cudart::fail("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
    freed.retire(s);
    CHECK(doubles::cudart::forgive());
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    cuda_check(cudaGraphDestroy(graph));
    CHECK(freed.empty());
}

TEST_CASE("cuda_freed_streams: a free during a wait is waited for the next time") {
    machine const      here;
    cuda_freed_streams freed;
    cuda_stream const  s;
    int                times = 0;
    // A note before each call that `synchronize` makes after its wait.
    for (std::uint64_t n = 1;; ++n) {
        freed.note(s);
        auto const waits = doubles::cudart::calls("cudaEventSynchronize");
        bool       noted = false;
        doubles::cudart::before_call(n, [&] {
            noted = doubles::cudart::calls("cudaEventSynchronize") != waits;
            if (noted) { freed.note(s); }
        });
        freed.synchronize();
        CHECK(freed.empty() != noted);
        times += noted ? 1 : 0;
        if (!doubles::cudart::cancel_before_call()) { break; }
    }
    CHECK(times > 0);
}

TEST_CASE("cuda_freed_streams: a stream is retired and destroyed before any call of a wait") {
    machine const      here;
    cuda_freed_streams freed;
    bool               again = true;
    for (std::uint64_t n = 1; again; ++n) {
        cudaStream_t raw = nullptr;
        cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        freed.note(raw);
        std::atomic<bool> done{false};
        std::thread       other;
        auto const        end = [&] {
            freed.retire(raw);
            CHECK(cudaStreamDestroy(raw) == cudaSuccess);
            done = true;
        };
        doubles::cudart::before_call(n, [&] {
            other = std::thread{end};
            // Where the lock is held, the other thread waits for this one.
            for (int i = 0; i < 50 && !done; ++i) { std::this_thread::sleep_for(200us); }
        });
        freed.synchronize();
        again = doubles::cudart::cancel_before_call();
        if (again) {
            other.join();
        } else {
            end();
        }
        freed.synchronize();
        CHECK(freed.empty());
        CHECK(doubles::cudart::dangling() == 0);
    }
}

TEST_CASE("cuda_freed_streams: an event that a thread waits for is not destroyed by another one") {
    machine const here;
    bool          again = true;
    for (std::uint64_t n = 1; again; ++n) {
        cuda_freed_streams freed;
        cudaStream_t       raw = nullptr;
        cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        freed.note(raw);
        freed.retire(raw);
        cuda_check(cudaStreamDestroy(raw));
        // Enough streams that those without work are forgotten, before each call up to the wait.
        auto const waits = doubles::cudart::calls("cudaEventSynchronize");
        doubles::cudart::before_call(n, [&] {
            bool const waited = doubles::cudart::calls("cudaEventSynchronize") != waits;
            for (int i = 0; i != 40 && !waited; ++i) {
                cuda_stream const s;
                freed.note(s);
            }
        });
        freed.synchronize();
        again = doubles::cudart::cancel_before_call();
        freed.synchronize();
        CHECK(freed.empty());
        CHECK(doubles::cudart::dangling() == 0);
    }
}

TEST_CASE("cuda_freed_streams: two threads wait for one retired stream") {
    machine const      here;
    cuda_freed_streams freed;
    cudaStream_t       raw = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    freed.note(raw);
    freed.retire(raw);
    cuda_check(cudaStreamDestroy(raw));
    int inner = 0;
    for (std::uint64_t n = 1; n != 20 && !freed.empty(); ++n) {
        // The other wait completes before the call of this one for the event.
        doubles::cudart::before_call(n, [&] {
            std::thread other{[&] { freed.synchronize(); }};
            other.join();
            ++inner;
        });
        freed.synchronize();
        doubles::cudart::cancel_before_call();
    }
    CHECK(inner == 1);
    CHECK(freed.empty());
    CHECK(doubles::cudart::dangling() == 0);
}
#endif
