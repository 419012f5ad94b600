// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_async_resource.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/layer/limiting.hpp>

#include <memory>   // make_unique
#include <optional> // optional
#include <thread>   // thread

using namespace vram;
using doubles::mishaps;
using tests::machine;

template class vram::limiting<cuda_async_resource>;

static_assert(std::is_nothrow_move_constructible_v<cuda_async_resource>);
static_assert(!std::is_copy_constructible_v<cuda_async_resource>);

TEST_CASE("cuda_async_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return cuda_async_resource{}; },
                 {.largest_alignment = 2_MiB, .operations = 1000});
}

TEST_CASE("cuda_async_resource: limiting over it keeps the laws") {
    machine const here;
    laws::resource<cuda_async_resource>([](auto up) { return limiting{std::move(up), 16_MiB}; },
                                        {.operations = 500});
}

TEST_CASE("cuda_async_resource: many concurrent threads keep the laws") {
    machine const here;
    laws::resource_of_many_threads<cuda_async_resource>(
        [](auto up) { return limiting{std::move(up), 16_MiB}; }, {.operations = 100});
}

TEST_CASE("cuda_async_resource: each has a pool of its own, and is equal to itself only") {
    machine const       here;
    cuda_async_resource first, second{cuda_device::current(), {.maximum_size = 64_MiB}};
    CHECK(first == first);
    CHECK(first != second);
    CHECK(first.device() == cuda_device::current());
    void* const p = first.allocate_sync(100);
    CHECK(first.usage().live >= 100);
    CHECK(second.usage().live == 0);
    first.deallocate_sync(p, 100);
    CHECK(second.pool().maximum_size() == 64_MiB);
    CHECK(std::as_const(second).pool().get() == second.pool().get());
}

TEST_CASE("cuda_async_resource: trim returns unused memory") {
    machine const       here;
    cuda_async_resource mr{{.initial_size = 64_MiB}};
    CHECK(mr.usage().reserved >= 64_MiB);
    CHECK(mr.trim() >= 64_MiB);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("cuda_async_resource: a refusal has the numbers of the pool and of the device") {
    machine const       here;
    cuda_async_resource mr{{.maximum_size = 64_MiB}};
    cuda_stream const   s;
    void* const         p = mr.allocate(s, 1_MiB);
    try {
        (void)mr.allocate(s, 256_MiB, 512);
        FAIL("the pool may not hold that much");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 256_MiB);
        CHECK(e.numbers().rounded == 256_MiB + 512);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().stream == s.id());
        CHECK(e.numbers().live >= 1_MiB);
        CHECK(e.numbers().reserved >= 1_MiB);
        CHECK(e.numbers().limit == 64_MiB);
        CHECK(e.numbers().device_total == cuda_memory_info().total);
    }
    CHECK_THROWS_AS((void)mr.allocate_sync(256_MiB), out_of_memory);
    CHECK(mr.try_allocate(s, 256_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(256_MiB) == nullptr);
    mr.deallocate(s, p, 1_MiB);
    s.synchronize();
}

TEST_CASE("cuda_async_resource: trim waits for pending frees, and breaks no capture") {
    machine const       here;
    cuda_async_resource mr;
    cuda_stream const   s, captured;
    void* const         p = mr.allocate(s, 64_MiB);
    void* const         q = mr.allocate(captured, 1_MiB);
    mr.deallocate(captured, q, 1_MiB); // noted
    for (int i = 0; i < 20; ++i) { cuda_fill(s, p, std::byte{1}, 64_MiB); }
    mr.deallocate(s, p, 64_MiB);
#ifdef VRAM_CUDART_DOUBLE
    mr.trim_no_wait();
    CHECK(mr.usage().reserved >= 64_MiB);
#endif
    cudaGraph_t graph = nullptr;
    captured.synchronize();
    cuda_check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    mr.trim();
    CHECK(mr.usage().reserved == 0);
    cuda_check(cudaStreamEndCapture(captured.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_async_resource: trim does not use a stream that has ended or was retired") {
    machine const       here;
    mishaps const       told;
    cuda_async_resource mr;
    void*               p = nullptr;
    {
        cuda_stream const ended;
        p = mr.allocate(ended, 1_MiB);
        mr.deallocate(ended, p, 1_MiB);
    }
    cudaStream_t raw = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
    void* const out = mr.allocate({}, 512); // the pool reserves more than zero bytes
    mr.deallocate(raw, mr.allocate(raw, 1_MiB), 1_MiB);
    mr.retire(raw);
    cuda_check(cudaStreamDestroy(raw));
    mr.trim();
    mr.deallocate({}, out, 512);
    mr.trim();
    CHECK(told.count() == 0);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("cuda_async_resource: trim returns freed memory of each kind of stream") {
    machine const       here;
    mishaps const       told;
    cuda_async_resource mr;
    SUBCASE("a stream of vram that is done") {
        cuda_stream const s;
        mr.deallocate(s, mr.allocate(s, 1_MiB), 1_MiB);
        while (!s.view().done()) {}
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("a stream of vram that has ended") {
        {
            cuda_stream const s;
            mr.deallocate(s, mr.allocate(s, 1_MiB), 1_MiB);
        }
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("the legacy default stream, while another thread trims") {
        mr.deallocate({}, mr.allocate({}, 1_MiB), 1_MiB);
        std::thread{[&] { mr.trim(); }}.join();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("the thread's own default stream") {
        mr.deallocate(cudaStreamPerThread, mr.allocate(cudaStreamPerThread, 1_MiB), 1_MiB);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("the own default stream of another thread before, and of this one") {
        std::thread{[&] {
            mr.deallocate(cudaStreamPerThread, mr.allocate(cudaStreamPerThread, 1_MiB), 1_MiB);
            cuda_check(cudaStreamSynchronize(cudaStreamPerThread));
        }}.join();
        mr.deallocate(cudaStreamPerThread, mr.allocate(cudaStreamPerThread, 1_MiB), 1_MiB);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("a raw stream that was retired and destroyed") {
        cudaStream_t raw = nullptr;
        cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        mr.deallocate(raw, mr.allocate(raw, 1_MiB), 1_MiB);
        mr.retire(raw);
        cuda_check(cudaStreamDestroy(raw));
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    SUBCASE("a stream of another device") {
        if (tests::two_devices()) {
            cuda_async_resource other{cuda_device{1}};
            cuda_stream const   s{cuda_device{1}};
            other.deallocate(s, other.allocate(s, 1_MiB), 1_MiB);
            CHECK(cuda_device::current() == cuda_device{0});
            other.trim();
            CHECK(other.usage().reserved == 0);
        }
    }
    SUBCASE("a trim that keeps it all waits for nothing") {
        cuda_stream const s;
        mr.deallocate(s, mr.allocate(s, 1_MiB), 1_MiB);
        CHECK(mr.trim(std::size_t{1} << 30) == 0);
        CHECK(mr.usage().reserved != 0);
    }
    CHECK(told.count() == 0);
}

TEST_CASE("cuda_async_resource: foreign pointers and double frees are reported") {
    machine const       here;
    mishaps const       told;
    cuda_async_resource mr;
    cuda_stream const   s;
    int                 mine = 0;
    mr.deallocate(s, &mine, 4);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    void* const p = mr.allocate(s, 100);
    mr.deallocate(s, p, 100);
    mr.deallocate(s, p, 100);
    CHECK(told.count(error_kind::foreign_pointer) == 2);
    mr.deallocate(s, mr.allocate(s, 100, 4096), 100, 16);
    CHECK(told.count(error_kind::wrong_alignment) == 1);
    s.synchronize();
}

TEST_CASE("cuda_async_resource: limiting over it does not count a free that CUDA refuses") {
    machine const     here;
    mishaps const     told;
    limiting          mr{cuda_async_resource{}, 1_MiB};
    cuda_stream const s;
    void* const       p = mr.allocate(s, 1000);
    mr.deallocate(s, p, 1000);
    mr.deallocate(s, p, 1000);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.count() == 1);
    CHECK(mr.used() == 0);
    s.synchronize();
}

TEST_CASE("cuda_async_resource: during a capture other streams allocate, and the captured stream "
          "allocates in its graph") {
    machine const       here;
    cuda_async_resource mr;
    cuda_stream const   captured, other;
    cudaGraph_t         graph = nullptr;
    cuda_check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    mr.deallocate(other, mr.allocate(other, 100), 100);
    mr.deallocate_sync(mr.allocate_sync(100), 100);
    void* const node = mr.allocate(captured, 1000);
    CHECK(node != nullptr);
    mr.deallocate(captured, node, 1000);
    cuda_check(cudaStreamEndCapture(captured.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_async_resource: an alignment that is not a power of two is a broken contract") {
    machine const                  here;
    cuda_async_resource            mr;
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)mr.allocate({}, 100, 48), doubles::broken_contract);
    CHECK_THROWS_AS((void)mr.allocate_sync(100, 0), doubles::broken_contract);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_async_resource: it allocates on its device, with any current device") {
    machine const       here;
    cuda_async_resource mr{cuda_device{1}};
    CHECK(mr.device() == cuda_device{1});
    CHECK(cuda_device::current() == cuda_device{0});
    auto const  before = cuda_memory_info(cuda_device{1}).free;
    void* const p      = mr.allocate_sync(1_MiB);
    CHECK(cuda_memory_info(cuda_device{1}).free < before);
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("cuda_async_resource: a failure of any call changes nothing") {
    machine const                      here;
    cuda_async_resource                mr;
    cuda_stream const                  s;
    std::optional<cuda_async_resource> made;
    CHECK(tests::walk_failures([&] { made.emplace(cuda_device{1}); }, [&] { made.reset(); }) == 22);
    for (std::size_t const alignment : {256, 4096}) {
        void*      p    = nullptr;
        auto const give = [&] { mr.deallocate(s, std::exchange(p, nullptr), 100, alignment); };
        CHECK(tests::walk_failures([&] { p = mr.allocate(s, 100, alignment); }, give) == 2);
        CHECK(tests::walk_failures([&] { p = mr.allocate_sync(100, alignment); }, give) == 4);
        CHECK(tests::walk_failures([&] { p = mr.try_allocate(s, 100, alignment); }, give) == 0);
        CHECK(tests::walk_failures([&] { p = mr.try_allocate_sync(100, alignment); }, give) == 0);
    }
    CHECK(mr.usage().live == 0);
}

TEST_CASE("cuda_async_resource: a free that fails is reported") {
    machine const       here;
    cuda_async_resource mr;
    cuda_stream const   s;
    void*               p = nullptr;
    tests::walk_reports([&] { p = mr.allocate(s, 100); }, [&] { mr.deallocate(s, p, 100); });
    tests::walk_reports([&] { p = mr.allocate_sync(100, 4096); },
                        [&] { mr.deallocate_sync(p, 100, 4096); });
    CHECK(mr.usage().live == 0);
}

TEST_CASE("cuda_async_resource: a refusal is thrown even if its numbers cannot be queried") {
    machine const       here;
    cuda_async_resource mr{{.maximum_size = 1_MiB}};
    for (char const* const call :
         {"cudaStreamGetId", "cudaMemPoolGetAttribute", "cudaMemGetInfo"}) {
        doubles::cudart::fail(call, cudaErrorUnknown);
        CHECK_THROWS_AS((void)mr.allocate({}, 4_MiB), out_of_memory);
        CHECK(doubles::cudart::forgive());
    }
}

TEST_CASE("cuda_async_resource: if the host has no memory for the bookkeeping, the request is an "
          "out_of_memory") {
    machine const       here;
    cuda_async_resource mr;
    bool                hit = true;
    for (std::uint64_t n = 1; hit; ++n) {
        void*            p       = nullptr;
        bool             refused = false;
        doubles::bombing armed{n};
        try {
            p = mr.allocate({}, 100, 4096);
        } catch (std::bad_alloc const&) { refused = true; }
        hit = armed.defuse();
        CHECK(refused == hit);
        mr.deallocate({}, p, 100, 4096);
        CHECK(mr.usage().live == 0);
    }
}

TEST_CASE("cuda_async_resource: a block that outlives its stream is freed") {
    machine const       here;
    mishaps const       told;
    cuda_async_resource mr;
    {
        auto   stream = std::make_unique<cuda_stream>();
        buffer data{mr, stream->view(), 1_MiB};
        stream.reset();
    }
    CHECK(told.count() == 0); // vram knows when its own streams end
    CHECK(doubles::cudart::out().pool_blocks == 0);
    CHECK(doubles::cudart::dangling() == 0);

    cudaStream_t raw = nullptr;
    REQUIRE(cudaStreamCreate(&raw) == cudaSuccess);
    void* const p = mr.allocate(raw, 1_MiB);
    REQUIRE(cudaStreamDestroy(raw) == cudaSuccess);
    mr.deallocate(raw, p, 1_MiB);
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(told.count() == 1);
    CHECK(doubles::cudart::out().pool_blocks == 0);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("cuda_async_resource: a block of a destroyed stream is not freed if no wait succeeds") {
    machine const          here;
    mishaps const          told;
    cuda_async_resource    mr;
    auto                   stream = std::make_unique<cuda_stream>();
    void* const            p      = mr.allocate(stream->view(), 1_MiB);
    cuda_stream_view const ended  = stream->view();
    stream.reset();
    doubles::cudart::fail("cudaMalloc", cudaErrorUnknown); // the first call of the wait
    mr.deallocate(ended, p, 1_MiB);
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(doubles::cudart::out().pool_blocks == 1);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE(
    "cuda_async_resource: limiting over it does not count a refused free on a destroyed stream") {
    machine const              here;
    mishaps const              told;
    limiting                   mr{cuda_async_resource{}, 1_MiB};
    std::optional<cuda_stream> stream{std::in_place};
    void* const                p     = mr.allocate(stream->view(), 1000);
    std::size_t const          live  = mr.used();
    cuda_stream_view const     ended = stream->view();
    stream.reset();
    doubles::cudart::fail("cudaMalloc", cudaErrorUnknown); // the first call of the wait
    mr.deallocate(ended, p, 1000);
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(mr.used() == live);
    mr.deallocate(ended, p, 1000);
    CHECK(mr.used() == 0);
    mr.deallocate(ended, p, 1000); // double free
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(mr.used() == 0);
}

TEST_CASE("cuda_async_resource: a free on a destroyed stream ends no capture of another stream") {
    for (bool const raw_stream : {false, true}) {
        for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                cudaStreamCaptureModeRelaxed}) {
            CAPTURE(raw_stream);
            CAPTURE(static_cast<int>(mode));
            machine const          here;
            mishaps const          told;
            cuda_async_resource    mr;
            cuda_stream const      captured;
            cuda_stream            owner;
            cuda_stream_view const ended = owner.view();
            void* const            p     = mr.allocate(ended, 1_MiB);
            if (raw_stream) {
                REQUIRE(cudaStreamDestroy(owner.release()) == cudaSuccess);
            } else {
                cuda_stream const gone = std::move(owner);
            }
            REQUIRE(cudaStreamBeginCapture(captured, mode) == cudaSuccess);
            mr.deallocate(ended, p, 1_MiB);
            cudaGraph_t graph = nullptr;
            CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
            if (graph != nullptr) { CHECK(cudaGraphDestroy(graph) == cudaSuccess); }
            CHECK(told.count(error_kind::dead_stream) == (raw_stream ? 1 : 0));
            CHECK(told.count() == (raw_stream ? 1 : 0));
            CHECK(doubles::cudart::out().pool_blocks == 0);
            (void)cudaGetLastError();
        }
    }
}

TEST_CASE("cuda_async_resource: memory that was freed on a retired stream is trimmed also if no "
          "event could be recorded") {
    for (char const* const call : {"cudaEventCreateWithFlags", "cudaEventRecord"}) {
        CAPTURE(call);
        machine const       here;
        cuda_async_resource mr;
        cudaStream_t        raw = nullptr;
        cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        mr.deallocate(raw, mr.allocate(raw, 1_MiB), 1_MiB);
        doubles::cudart::fail(call, cudaErrorUnknown);
        mr.retire(raw);
        CHECK(doubles::cudart::forgive());
        cuda_check(cudaStreamDestroy(raw));
        mr.trim();
        CHECK(mr.usage().reserved == 0);
        CHECK(doubles::cudart::dangling() == 0);
    }
}

TEST_CASE("cuda_async_resource: a stream that has ended is not destroyed by another thread during "
          "a free on it") {
    bool again = true;
    for (std::uint64_t n = 1; again; ++n) {
        machine const              here;
        mishaps const              told;
        cuda_async_resource        mr, other;
        std::optional<cuda_stream> s{std::in_place};
        cuda_stream_view const     ended = s->view();
        void* const                p     = mr.allocate(ended, 1_MiB);
        // `other` keeps the handle of the stream valid until its trim.
        other.deallocate(ended, other.allocate(ended, 1_MiB), 1_MiB);
        s.reset();
        doubles::cudart::before_call(n, [&] { other.trim(); });
        mr.deallocate(ended, p, 1_MiB);
        again = doubles::cudart::cancel_before_call();
        CHECK(doubles::cudart::dangling() == 0);
        CHECK(doubles::cudart::out().pool_blocks == 0);
        CHECK(told.count() == 0);
    }
}
#endif
