// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_stream_ids.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../machine.hpp"

#include <vram/cuda/cuda_event.hpp>
#include <vram/cuda/cuda_stream.hpp>

#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("cuda_stream_ids: the meaning of a default stream's handle is known on the thread that "
          "queried it") {
    machine const here;
    for (cudaStream_t const name : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        CHECK_FALSE(cuda_stream_ids::is_proper(name));
        auto const id = cuda_stream_view{name}.id();
        REQUIRE(cuda_stream_ids::recall(name));
        CHECK(cuda_stream_ids::recall(name)->id == id);
        CHECK(cuda_stream_ids::recall(name)->device == cuda_device::current());
        bool const everybodys = name != cudaStreamPerThread;
        std::thread{[&] { CHECK(cuda_stream_ids::recall(name).has_value() == everybodys); }}.join();
        for (std::uint64_t other = 0; other < 40; ++other) { // after resets of the device
            cuda_stream_ids::note(name, id + other);
            CHECK(cuda_stream_ids::recall(name)->id == id + other);
        }
        cuda_stream_ids::note(name, id);
    }
}

TEST_CASE("cuda_stream_ids: a cuda_stream is known as long as it exists") {
    machine const here;
    cudaStream_t  raw = nullptr;
    {
        cuda_stream const s;
        raw              = s.get();
        auto const known = cuda_stream_ids::recall(raw);
        REQUIRE(known);
        CHECK(known->id == s.id());
        CHECK(known->device == cuda_device::current());
    }
    CHECK_FALSE(cuda_stream_ids::recall(raw));
}

TEST_CASE("cuda_stream_ids: a cuda_stream that has ended is known, until its handle is another "
          "stream's that was queried") {
    machine const here;
    cudaStream_t  raw = nullptr;
    {
        cuda_stream const s;
        raw = s.get();
        CHECK_FALSE(cuda_stream_ids::ended(raw));
    }
    CHECK(cuda_stream_ids::ended(raw));
    CHECK(cuda_stream_view{raw}.ended());
    CHECK_FALSE(cuda_stream_view{}.ended());
    cudaStream_t other = nullptr;
    cuda_check(cudaStreamCreate(&other));
    if (other == raw) { // as the double does at once
        // Another stream with that handle is not known to exist.
        CHECK(cuda_stream_view{other}.ended());
        CHECK(cuda_stream_view{other}.id() != 0);
    }
    CHECK_FALSE(cuda_stream_view{other}.ended());
    cuda_check(cudaStreamDestroy(other));
    cuda_stream_ids::forget(raw);
    CHECK_FALSE(cuda_stream_ids::ended(raw));
    cuda_stream_ids::forget(raw);
    CHECK_FALSE(cuda_stream_ids::ended(raw));
    cuda_stream       whose;
    cuda_stream const moved = std::move(whose);
    CHECK_FALSE(moved.view().ended());
}

TEST_CASE(
    "cuda_stream_ids: a raw stream is known from its first query, also when its handle is reused") {
    machine const here;
    for (int i = 0; i < 2; ++i) {
        cudaStream_t raw = nullptr;
        cuda_check(cudaStreamCreate(&raw));
        auto const id = cuda_stream_view{raw}.id();
        CHECK(cuda_stream_view{raw}.id() == id);
        REQUIRE(cuda_stream_ids::recall(raw));
        CHECK(cuda_stream_ids::recall(raw)->id == id);
        cuda_check(cudaStreamDestroy(raw));
    }
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_stream_ids: a stream that cannot be recorded is recorded at the next query") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    cuda_stream_ids::forget(raw);
    doubles::cudart::fail("cudaStreamGetDevice", cudaErrorUnknown);
    auto const id = cuda_stream_view{raw}.id();
    CHECK(doubles::cudart::forgive());
    CHECK_FALSE(cuda_stream_ids::recall(raw));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    {
        doubles::bombing armed{1};
        (void)cuda_stream_view{raw}.id();
    }
    CHECK_FALSE(cuda_stream_ids::recall(raw));
    CHECK(cuda_stream_view{raw}.id() == id);
    CHECK(cuda_stream_ids::recall(raw));
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_ids: a query after the end does not revive a stream") {
    machine const here;
    cudaStream_t  raw = nullptr;
    std::uint64_t id  = 0;
    {
        cuda_stream const s;
        raw = s.get();
        id  = s.id();
    }
    CHECK(cuda_stream_ids::ended(raw));
    std::thread{[&] {
        cudaStream_t other = nullptr; // a stream with that handle, whose device can be queried
        cuda_check(cudaStreamCreate(&other));
        CHECK(other == raw);
        cuda_stream_ids::note(raw, id);
        CHECK(cuda_stream_ids::ended(raw));
        cuda_check(cudaStreamDestroy(other));
    }}.join();
    CHECK_FALSE(cuda_stream_ids::recall(raw));
}

TEST_CASE(
    "cuda_stream_ids: a thread with an earlier query sees the end of a stream by another thread") {
    machine const here;
    cudaStream_t  some[40]; // more than a thread has places for
    for (cudaStream_t& each : some) {
        cuda_check(cudaStreamCreate(&each));
        cuda_stream_ids::forget(each); // some stream of an earlier test may have had that handle
    }
    cuda_stream_ids::end(some[0], 1); // otherwise no stream would have to be queried
    for (std::uint64_t last = 1; last != 40; ++last) {
        for (int twice = 0; twice != 2; ++twice) {
            for (std::uint64_t i = 0; i != 40; ++i) {
                CHECK(cuda_stream_ids::ended(some[i]) == (i < last));
            }
        }
        std::thread{[&] { cuda_stream_ids::end(some[last], last + 1); }}.join();
    }
    cuda_stream_ids::note(some[7], 100); // the handle means another stream
    CHECK_FALSE(cuda_stream_ids::ended(some[7]));
    cuda_stream_ids::end(some[7], 100);
    CHECK(cuda_stream_ids::ended(some[7]));
    for (cudaStream_t const each : some) {
        cuda_stream_ids::forget(each);
        CHECK_FALSE(cuda_stream_ids::ended(each));
        cuda_check(cudaStreamDestroy(each));
    }
}

TEST_CASE("cuda_stream_ids: with concurrent records, ends and removals every end is seen") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    std::thread notes{[&] {
        for (std::uint64_t i = 1; i != 2000; ++i) { cuda_stream_ids::note(raw, i); }
    }};
    for (std::uint64_t i = 1; i != 2000; ++i) {
        cuda_stream_ids::end(raw, i);
        cuda_stream_ids::forget(raw);
    }
    notes.join();
    cuda_stream_ids::forget(raw);
    CHECK_FALSE(cuda_stream_ids::ended(raw));
    cuda_stream_ids::end(raw, 5000);
    CHECK(cuda_stream_ids::ended(raw));
    cuda_stream_ids::forget(raw);
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_ids: a stream that cannot be recorded is not taken for its predecessor") {
    machine const here;
    cudaStream_t  raw = nullptr;
    {
        cuda_stream const s;
        raw = s.get();
    }
    REQUIRE(cuda_stream_ids::ended(raw));
    cudaStream_t other = nullptr;
    cuda_check(cudaStreamCreate(&other));
    REQUIRE(other == raw);
    doubles::cudart::fail("cudaStreamGetDevice", cudaErrorUnknown);
    CHECK(cuda_stream_view{other}.id() != 0);
    CHECK(doubles::cudart::forgive());
    CHECK_FALSE(cuda_stream_ids::ended(other)); // the later stream with that handle
    CHECK_FALSE(cuda_stream_ids::recall(other));
    cuda_check(cudaStreamDestroy(other));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("cuda_stream_ids: a stream is destroyed when its last hold is released") {
    machine const    here;
    cuda_stream_hold held, copy;
    cudaStream_t     raw = nullptr;
    std::uint64_t    id  = 0;
    {
        cuda_stream const s;
        raw  = s.get();
        id   = s.id();
        held = cuda_stream_ids::hold(raw);
        CHECK(held);
        CHECK_FALSE(held.ended());
    }
    CHECK(held.ended());
    CHECK(cuda_stream_ids::ended(raw));
    copy = held;
    held = {};
    CHECK(doubles::cudart::calls("cudaStreamDestroy") == 0);
    CHECK(cuda_stream_ids::announced(raw) == id);
    CHECK(cuda_stream_ids::standing_of(raw, id) == stream_standing::there);
    REQUIRE(cuda_stream_ids::recall(raw));
    CHECK(cuda_stream_ids::recall(raw)->id == id);
    cuda_event place;
    copy.record(place);
    CHECK(place.done());
    {
        cuda_stream const other;
        CHECK(other.get() != raw);
    }
    copy = {};
    CHECK(doubles::cudart::calls("cudaStreamDestroy") == 2);
    CHECK(cuda_stream_ids::announced(raw) == 0);
    CHECK(cuda_stream_ids::standing_of(raw, id) == stream_standing::ended);
    CHECK_FALSE(cuda_stream_ids::recall(raw));
    CHECK(doubles::cudart::dangling() == 0);
}

TEST_CASE("cuda_stream_ids: a hold on a raw or a released stream is empty") {
    machine const here;
    cudaStream_t  raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    CHECK_FALSE(cuda_stream_ids::hold(raw));
    CHECK_FALSE(cuda_stream_ids::hold(nullptr));
    CHECK_FALSE(cuda_stream_ids::hold(cudaStreamPerThread));
    cuda_check(cudaStreamDestroy(raw));
    cuda_stream            s;
    cuda_stream_hold const held = cuda_stream_ids::hold(s.get());
    CHECK(held);
    raw = s.release();
    CHECK_FALSE(held);
    CHECK_FALSE(held.ended());
    CHECK_FALSE(cuda_stream_ids::hold(raw));
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream_ids: a stream whose entry was removed has no hold after its last one") {
    machine const    here;
    cudaStream_t     raw = nullptr;
    cuda_stream_hold held;
    {
        cuda_stream const s;
        raw  = s.get();
        held = cuda_stream_ids::hold(raw);
    }
    CHECK(cuda_stream_ids::announced(raw) == held.id()); // from now on in the thread's cache
    cuda_stream_ids::forget(raw);                        // as an allocation on the handle does
    CHECK(cuda_stream_ids::announced(raw) == 0);
    held = {};
    CHECK_FALSE(cuda_stream_ids::hold(raw));
}

TEST_CASE("cuda_stream_ids: the end of a stream from before a reset does not end a newer stream "
          "with the same handle") {
    for (bool const released : {false, true}) {
        CAPTURE(released);
        machine const              here;
        doubles::mishaps const     told;
        cuda_device const          device = cuda_device::current();
        std::optional<cuda_stream> old{std::in_place};
        cudaStream_t const         raw   = old->get();
        std::uint64_t const        newer = old->id() + 1000;
        std::uint64_t const        ends  = cuda_stream_ids::ends();
        cuda_check(cudaDeviceReset());
        // CUDA may give the handle to a new stream; the double does not.
        cuda_stream_hold next = cuda_stream_ids::begin(raw, newer, device);
        released ? (void)old->release() : old.reset();
        CHECK_FALSE(cuda_stream_view{raw}.ended());
        CHECK(cuda_stream_ids::announced(raw) == newer);
        CHECK(cuda_stream_ids::hold(raw));
        CHECK(cuda_stream_ids::ends() > ends);
        cuda_stream_ids::end(std::move(next), true); // no stream of the double has the handle
        cuda_stream_ids::forget(raw);
    }
}

TEST_CASE("cuda_stream: a stream that is destroyed during its capture ends the capture") {
    machine const              here;
    std::optional<cuda_stream> s{std::in_place};
    cuda_stream_hold const     held = cuda_stream_ids::hold(s->get());
    cuda_check(cudaStreamBeginCapture(s->get(), cudaStreamCaptureModeThreadLocal));
    s.reset();
    CHECK_FALSE(cuda_stream_view{held.get()}.capturing());
    cuda_event place;
    held.record(place);
    CHECK(place.done());
}

TEST_CASE("cuda_stream_ids: the last hold may be released on any thread, and none is lost") {
    machine const here;
    for (int i = 0; i != 100; ++i) {
        std::optional<cuda_stream> s{std::in_place};
        auto const                 held = cuda_stream_ids::hold(s->get());
        std::thread                other{[copy = held] { (void)copy.ended(); }};
        s.reset();
        other.join();
    }
    CHECK(doubles::cudart::out().streams == 0);
}
#endif
