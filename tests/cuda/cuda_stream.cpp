// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_stream.hpp> // first: the header stands alone

#include <vram/cuda/cuda_event.hpp>

#include "machine.hpp"
#include "slow_work.hpp"

#include <optional> // optional

using namespace vram;
using tests::machine;

static_assert(std::is_nothrow_move_constructible_v<cuda_stream>);
static_assert(std::is_nothrow_move_assignable_v<cuda_stream>);
static_assert(!std::is_copy_constructible_v<cuda_stream>);
static_assert(std::is_convertible_v<cuda_stream const&, cuda_stream_view>);
static_assert(std::is_convertible_v<cuda_stream const&, cudaStream_t>);
// It would be destroyed before its use.
static_assert(!std::is_convertible_v<cuda_stream, cudaStream_t>);

template <class A, class B>
concept comparable = requires(A a, B b) { a == b&& b == a && !(a != b) && !(b != a); };

static_assert(comparable<cuda_stream const&, cuda_stream&>);
static_assert(comparable<cuda_stream const&, cuda_stream_view>);
static_assert(comparable<cuda_stream&, cudaStream_t>);
static_assert(comparable<cuda_stream_view, cudaStream_t>);
static_assert(!comparable<cuda_stream&, int>);

TEST_CASE("cuda_stream: it is created as requested, and destroyed with its owner") {
    machine const     here;
    cuda_stream const plain;
    cuda_stream const blocking{cuda_device::current(), {.blocking = true, .priority = -1000}};
    unsigned          flags = 0;
    cuda_check(cudaStreamGetFlags(plain.get(), &flags));
    CHECK(flags == cudaStreamNonBlocking);
    cuda_check(cudaStreamGetFlags(blocking.get(), &flags));
    CHECK(flags == cudaStreamDefault);

    int urgent = 0, least = 0, most = 0;
    cuda_check(cudaStreamGetPriority(blocking.get(), &urgent));
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &most));
    CHECK(urgent == most); // an unsupported priority becomes the nearest supported one
    CHECK(plain.view() == plain.get());
    CHECK(plain.id() == plain.view().id());
    CHECK(plain.id() != blocking.id());
}

TEST_CASE("cuda_stream: a moved-from stream is empty") {
    machine const here;
    cuda_stream   first;
    auto const    id  = first.id();
    auto const    raw = first.get();
    cuda_stream   second{std::move(first)};
    CHECK(second.get() == raw);
    CHECK(second.id() == id);
    CHECK(first.get() == nullptr);
    cuda_stream third;
    third = std::move(second);
    CHECK(third.get() == raw);
    auto& same = third;
    third      = std::move(same);
    CHECK(third.get() == raw);
    CHECK(third.id() == id);
}

TEST_CASE("cuda_stream: it converts for CUDA, and compares with every kind of stream") {
    machine const     here;
    cuda_stream const s, other;
    cuda_event        e;
    cuda_check(cudaEventRecord(e, s));
    cuda_check(cudaStreamWaitEvent(other, e, 0));
    cuda_check(cudaStreamSynchronize(other));
    cudaStream_t const raw = s;
    CHECK(raw == s.get());
    CHECK(s == s);
    CHECK(s == raw);
    CHECK(s == s.view());
    CHECK(s.view() == s);
    CHECK(s != other);
    CHECK(s.view() != other);
    CHECK(raw != other);
}

TEST_CASE("cuda_stream: the caller destroys a released stream") {
    machine const here;
    cuda_stream   s;
    cudaStream_t  raw = s.release();
    CHECK(s.get() == nullptr);
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("cuda_stream: synchronize waits for its work, and the destructor does not") {
    machine const    here;
    tests::slow_work work;
    cuda_stream      s;
    work.enqueue(s);
    s.synchronize();
    CHECK(s.view().done());
    {
        cuda_stream const brief;
        work.enqueue(brief);
    }
    cuda_check(cudaDeviceSynchronize());
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_stream: it is created on its device, with any current device") {
    machine const     here;
    cuda_stream const s{cuda_device{1}};
    CHECK(s.view().device() == cuda_device{1});
    CHECK(cuda_device::current() == cuda_device{0});
}

TEST_CASE("cuda_stream: a failure of any call of its constructor leaves no stream behind") {
    machine const              here;
    std::optional<cuda_stream> s;
    CHECK(tests::walk_failures([&] { s.emplace(cuda_device{1}); }, [&] { s.reset(); }) == 8);
}

TEST_CASE("cuda_stream: a failure in its destructor is reported") {
    machine const          here;
    doubles::mishaps const told;
    {
        cuda_stream const s;
        doubles::cudart::fail("cudaStreamDestroy", cudaErrorUnknown);
    }
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::platform_error) == 1);
}
#endif
