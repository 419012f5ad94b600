// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_stream_ids.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_stream.hpp>

#include <cstdint>
#include <thread>

using namespace vram;
using tests::machine;

TEST_CASE("cuda_stream_ids: what the name of a default stream meant is known to the thread that "
          "asked") {
    machine const here;
    for (cudaStream_t const name : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        CHECK_FALSE(cuda_stream_ids::is_proper(name));
        auto const id = cuda_stream_view{name}.id();
        REQUIRE(cuda_stream_ids::recall(name));
        CHECK(cuda_stream_ids::recall(name)->id == id);
        CHECK(cuda_stream_ids::recall(name)->device == cuda_device::current());
        std::thread{[&] { CHECK_FALSE(cuda_stream_ids::recall(name)); }}.join();
        for (std::uint64_t other = 0; other < 40; ++other) { // after resets of the device
            cuda_stream_ids::note(name, id + other);
            CHECK(cuda_stream_ids::recall(name)->id == id + other);
        }
        cuda_stream_ids::note(name, id);
    }
}

TEST_CASE("cuda_stream_ids: a stream of vram's is known as long as it is there") {
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

TEST_CASE("cuda_stream_ids: a stream of vram's that has ended is known to, until its handle is "
          "another's that somebody has asked") {
    machine const here;
    cudaStream_t  raw = nullptr;
    {
        cuda_stream const s;
        raw = s.get();
        CHECK_FALSE(cuda_stream_ids::ended(raw));
    }
    CHECK(cuda_stream_ids::ended(raw));
    CHECK(cuda_stream_view{raw}.ended());
    CHECK_FALSE(cuda_stream_view{raw}.idle(1));
    CHECK_FALSE(cuda_stream_view{}.ended());
    cudaStream_t other = nullptr;
    cuda_check(cudaStreamCreate(&other));
    if (other == raw) {                         // as the double does at once
        CHECK(cuda_stream_view{other}.ended()); // for all that is known
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

TEST_CASE("cuda_stream_ids: somebody else's is known from the first question on, also when its "
          "handle comes back") {
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
TEST_CASE("cuda_stream_ids: what cannot be noted is noted the next time") {
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

TEST_CASE("cuda_stream_ids: a note that fails leaves what is known of the same stream") {
    machine const     here;
    cuda_stream const s;
    std::thread{[&] { // which has not noted it yet
        doubles::cudart::fail("cudaStreamGetDevice", cudaErrorUnknown);
        CHECK(s.view().id() == s.id());
        CHECK(doubles::cudart::forgive());
    }}
        .join();
    CHECK(cuda_stream_ids::recall(s.get()));
}

TEST_CASE("cuda_stream_ids: a question that comes too late does not bring a stream back") {
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
        cudaStream_t other = nullptr; // of that handle, so that its device can be asked
        cuda_check(cudaStreamCreate(&other));
        CHECK(other == raw);
        cuda_stream_ids::note(raw, id);
        CHECK(cuda_stream_ids::ended(raw));
        cuda_check(cudaStreamDestroy(other));
    }}.join();
    CHECK_FALSE(cuda_stream_ids::recall(raw));
}

TEST_CASE("cuda_stream_ids: a stream that was not noted is known to have ended") {
    machine const here;
    cudaStream_t  raw = nullptr;
    {
        doubles::cudart::fail("cudaStreamGetDevice", cudaErrorUnknown);
        cuda_stream const s;
        CHECK(doubles::cudart::forgive());
        raw = s.get();
        CHECK_FALSE(cuda_stream_ids::recall(raw));
    }
    CHECK(cuda_stream_ids::ended(raw));
    cuda_stream_ids::forget(raw);
}

TEST_CASE("cuda_stream_ids: who has asked before sees the end of a stream, whoever ends it") {
    machine const here;
    cudaStream_t  some[40]; // so many that a thread keeps several of them in one place
    for (cudaStream_t& each : some) {
        cuda_check(cudaStreamCreate(&each));
        cuda_stream_ids::forget(each); // some stream of an earlier test may have had that handle
    }
    cuda_stream_ids::end(some[0], 1); // else nobody would have to be asked about
    for (std::uint64_t last = 1; last != 40; ++last) {
        for (int twice = 0; twice != 2; ++twice) {
            for (std::uint64_t i = 0; i != 40; ++i) {
                CHECK(cuda_stream_ids::ended(some[i]) == (i < last));
            }
        }
        std::thread{[&] { cuda_stream_ids::end(some[last], last + 1); }}.join();
    }
    cuda_stream_ids::note(some[7], 100); // that handle is another's
    CHECK_FALSE(cuda_stream_ids::ended(some[7]));
    cuda_stream_ids::end(some[7], 100);
    CHECK(cuda_stream_ids::ended(some[7]));
    for (cudaStream_t const each : some) {
        cuda_stream_ids::forget(each);
        CHECK_FALSE(cuda_stream_ids::ended(each));
        cuda_check(cudaStreamDestroy(each));
    }
}

TEST_CASE("cuda_stream_ids: whatever threads note, end and forget, ends are seen") {
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

TEST_CASE("cuda_stream_ids: a stream that cannot be noted is not taken for the one before") {
    machine const here;
    for (bool const memory : {false, true}) {
        cudaStream_t raw = nullptr;
        {
            cuda_stream const s;
            raw = s.get();
        }
        REQUIRE(cuda_stream_ids::ended(raw));
        if (memory) {
            cuda_stream_ids::forget(raw); // so that there is no room for it
            doubles::bombing armed{1};
            cuda_stream_ids::note(raw, 7);
        } else {
            doubles::cudart::fail("cudaStreamGetDevice", cudaErrorUnknown);
            cuda_stream const s; // of that handle
            CHECK(s.get() == raw);
            CHECK(doubles::cudart::forgive());
            CHECK_FALSE(s.view().ended());
        }
        CHECK(cuda_stream_ids::ended(raw) == !memory); // the later one of that handle
        CHECK_FALSE(cuda_stream_ids::recall(raw));
    }
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}
#endif
