// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_platform.hpp> // first: the header stands alone

#include "machine.hpp"
#include "slow_work.hpp"

#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/pinned_resource.hpp>

#include <atomic> // atomic
#include <vector> // vector

using namespace vram;
using tests::machine;
using P = cuda_platform;

static_assert(platform<P>);
static_assert(std::is_same_v<P::device_resource::platform, P>);
static_assert(std::is_same_v<P::pinned_resource::platform, P>);
static_assert(std::constructible_from<P::own_stream, P::device>);

TEST_CASE("cuda_platform: its functions return the results of its parts") {
    machine const here;
    P::own_stream s;
    P::event      e{P::current_device()};
    CHECK(P::current_device() == cuda_device::current());
    CHECK(P::memory(P::current_device()).total == cuda_memory_info().total);
    CHECK(P::id(s.view()) == s.id());
    CHECK(P::device_of(s.view()) == P::current_device());
    CHECK_FALSE(P::capturing(s.view()));
    CHECK(P::capture_of(s.view()) == 0);
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed));
    CHECK(P::capture_of(s.view()) != 0);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
    CHECK(P::capture_of(s.view()) == 0);
    P::record(e, s.view());
    P::wait(cuda_stream_view{}, e);
    P::synchronize(e);
    CHECK(P::done(e));
}

TEST_CASE("cuda_platform: copies and fills are in stream order") {
    machine const          here;
    P::own_stream          s;
    P::device_resource     memory;
    std::vector<std::byte> back(100);
    void* const            p = memory.allocate_sync(100);
    P::fill(s.view(), p, std::byte{7}, 100);
    P::copy(s.view(), back.data(), p, 50);
    P::copy(s.view(), pitched_copy{.to         = back.data() + 50,
                                   .to_pitch   = 10,
                                   .from       = p,
                                   .from_pitch = 20,
                                   .width      = 10,
                                   .height     = 5});
    P::synchronize(s.view());
    CHECK(back == std::vector<std::byte>(100, std::byte{7}));
    memory.deallocate_sync(p, 100);
}

TEST_CASE("cuda_platform: a host callback runs after the work before it") {
    machine const    here;
    tests::slow_work work;
    P::own_stream    s;
    std::atomic<int> called{0};
    work.enqueue(s.view());
    P::call(s.view(), [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &called);
    P::synchronize(s.view());
    CHECK(called == 1);
}

TEST_CASE("cuda_platform: timed events measure the time between them") {
    machine const    here;
    tests::slow_work work;
    P::own_stream    s;
    P::event         start = P::timed_event(P::current_device());
    P::event         end   = P::timed_event(P::current_device());
    P::record(start, s.view());
    work.enqueue(s.view());
    P::record(end, s.view());
    P::synchronize(end);
    CHECK(P::elapsed(start, end) > 1000); // 64 MiB in a microsecond is no machine of today's
}

TEST_CASE("cuda_platform: after a wait for a device all its work is complete") {
    machine const    here;
    tests::slow_work work, other;
    P::own_stream    first, second;
    work.enqueue(first.view());
    other.enqueue(second.view());
    P::synchronize(P::current_device());
    CHECK(first.view().done());
    CHECK(second.view().done());
}

TEST_CASE("cuda_platform: it returns the kind of an address, and if the device uses the host's "
          "page tables") {
    machine const here;
    unsigned char plain = 0;
    CHECK(P::memory_kind_of(&plain) == memory_kind::pageable);
    int tables = -1;
    cuda_check(
        cudaDeviceGetAttribute(&tables, cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0));
    CHECK(P::uses_host_page_tables(cuda_device{0}) == (tables != 0));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_platform: every error of the runtime is thrown") {
    machine const here;
    auto const    nothing = [] {};
    P::synchronize(cuda_device{1}); // the driver's functions are looked up once
    CHECK(tests::walk_failures([] { P::synchronize(cuda_device{1}); }, nothing) == 6);
    CHECK(tests::walk_failures([] { P::call({}, [](void*) {}, nullptr); }, nothing) == 2);
    P::synchronize(cuda_device{0});
}
#endif
