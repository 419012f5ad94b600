// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_error.hpp> // first: the header stands alone

#include <vram/base/error.hpp>
#include <vram/base/error_text.hpp>

#include "machine.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <concepts> // default_initializable
#include <cstddef>  // size_t
#include <cstring>  // strstr
#include <new>      // bad_alloc
#include <string>   // string

using namespace vram;
using doubles::mishaps;
using tests::machine;

static_assert(std::is_base_of_v<std::system_error, cuda_error>);
static_assert(std::is_nothrow_copy_constructible_v<cuda_error>);

TEST_CASE("cuda_error: it has the code, the runtime's text and the source location") {
    machine const         here;
    [[maybe_unused]] auto line = __LINE__;
    try {
        line = __LINE__ + 1;
        cuda_check(cudaErrorInvalidValue);
        FAIL("it throws");
    } catch (cuda_error const& e) {
        CHECK(e.status() == cudaErrorInvalidValue);
        CHECK(e.code().value() == cudaErrorInvalidValue);
        CHECK(&e.code().category() == &cuda_error::category());
        CHECK(std::strstr(e.what(), "cudaErrorInvalidValue: ") != nullptr);
        CHECK(std::strstr(e.where().file_name(), "cuda_error.cpp") != nullptr);
        CHECK(e.where().line() == static_cast<unsigned>(line));
    }
    CHECK(cuda_error::category().name() == std::string{"cuda"});
}

TEST_CASE("cuda_error: an unknown code has a text too") {
    machine const here;
    CHECK_FALSE(cuda_error{static_cast<cudaError_t>(12345)}.code().message().empty());
}

TEST_CASE("cuda_check: success does nothing") {
    machine const here;
    CHECK_NOTHROW(cuda_check(cudaSuccess));
    CHECK_NOTHROW(cuda_check(cudaSuccess, {.asked = 5}));
}

TEST_CASE("cuda_check: an allocation failure is out_of_memory, with the given numbers") {
    machine const here;
    CHECK_THROWS_AS(cuda_check(cudaErrorMemoryAllocation), out_of_memory);
    try {
        cuda_check(cudaErrorMemoryAllocation, {.asked = 7, .rounded = 8});
        FAIL("it throws");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 7);
        CHECK(e.numbers().rounded == 8);
    }
}

TEST_CASE("cuda_done: ready and not ready are results, and any other code is thrown") {
    machine const here;
    CHECK(cuda_done(cudaSuccess));
    CHECK_FALSE(cuda_done(cudaErrorNotReady));
    CHECK_THROWS_AS((void)cuda_done(cudaErrorInvalidValue), cuda_error);
    CHECK_THROWS_AS((void)cuda_done(cudaErrorMemoryAllocation), out_of_memory);
}

TEST_CASE("cuda_check: no error stays latched") {
    machine const here;
    void*         p = nullptr;
    CHECK_THROWS_AS(cuda_check(cudaMalloc(&p, std::size_t{1} << 50)), out_of_memory);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK_THROWS_AS(cuda_check(cudaSetDevice(-1)), cuda_error);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("cuda_error: a report goes to the sink and clears the latched error") {
    machine const here;
    mishaps const told;
    CHECK(cuda_error::report(cudaSuccess));
    CHECK(told.count() == 0);
    CHECK_FALSE(cuda_error::report(cudaSetDevice(-1)));
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("cuda_error: a pointer that CUDA does not know is named as such") {
    machine const here;
    mishaps const told;
    int           mine = 0;
    CHECK_FALSE(cuda_error::report(cudaFree(&mine), &mine, 4));
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.pointer() == &mine);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_error: a broken context keeps its error") {
    {
        machine const here;
        doubles::cudart::break_context(cudaErrorIllegalAddress);
        CHECK_THROWS_AS(cuda_check(cudaDeviceSynchronize()), cuda_error);
        CHECK_THROWS_AS(cuda_check(cudaDeviceSynchronize()), cuda_error);
        CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
        doubles::cudart::reset();
    }
}

template <class Memory>
Memory made_before_fault() {
    if constexpr (std::default_initializable<Memory>) {
        return Memory{};
    } else {
        return Memory{std::size_t{1} << 20};
    }
}
TEST_CASE_TEMPLATE("cuda_error: after a kernel has failed, an allocation throws its error at once, "
                   "and one message is reported",
                   Memory, stream_ordered<cuda_resource>, cuda_async_resource,
                   pool<stream_ordered<cuda_resource>>, pool<virtual_resource>, slab<cuda_resource>,
                   binned<stream_ordered<cuda_resource>>, monotonic<cuda_resource>,
                   arena<pool<stream_ordered<cuda_resource>>>, pool<pinned_resource>) {
    machine const here;
    mishaps const told;
    {
        Memory            memory = made_before_fault<Memory>();
        cuda_stream const one, two;
        void* const       p = memory.allocate(one, 1000);
        void* const       q = memory.allocate(one, 1000);
        memory.deallocate(one, p, 1000);
        doubles::cudart::break_context(cudaErrorIllegalAddress);
        auto const calls = doubles::cudart::calls();
        // A slab takes blocks of one size from its chunk until it is empty.
        std::size_t const bytes = std::default_initializable<Memory> ? 64 << 20 : 1 << 20;
        bool              threw = false;
        for (int i = 0; i < 1000 && !threw; ++i) {
            try {
                if (void* const r = memory.allocate(two, bytes)) {
                    memory.deallocate(one, r, bytes);
                }
            } catch (cuda_error const& e) {
                threw = true;
                CHECK(e.status() == cudaErrorIllegalAddress);
            }
        }
        CHECK(threw);
        CHECK(doubles::cudart::calls() - calls < 100); // it does not try again and again
        memory.deallocate(two, q, 1000);
        if constexpr (trimmable_resource<Memory>) {
            try {
                memory.trim();
            } catch (cuda_error const&) {}
        }
    }
    CHECK(told.count() == 1);
    CHECK(told.last().code == cudaErrorIllegalAddress);
    doubles::cudart::reset();
}
#endif

TEST_CASE("cuda_error: a report has the call, and the code by name and in words") {
    machine const here;
    mishaps const told;
    CHECK_FALSE(cuda_error::report("cudaSetDevice", cudaSetDevice(-1)));
    error const last = told.last();
    CHECK(last.code == cudaErrorInvalidDevice);
    std::string const expected = std::string{"cudaSetDevice failed with "} +
                                 cudaGetErrorName(cudaErrorInvalidDevice) + " (101, " +
                                 cudaGetErrorString(cudaErrorInvalidDevice) + "). ";
    std::string const text = error_text{last}.c_str();
    CAPTURE(text);
    CHECK(text.find(expected) != std::string::npos);
}
