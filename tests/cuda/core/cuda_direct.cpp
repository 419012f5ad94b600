// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_direct.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/contracts_throw.hpp"
#include "../machine.hpp"

#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;
using tests::machine;

template class vram::detail::cuda_direct<cuda_resource>;
template class vram::detail::cuda_direct<managed_resource>;
template class vram::detail::cuda_direct<pinned_resource>;

TEST_CASE_TEMPLATE(
    "cuda_direct: resources of one device are equal, and can free each other's memory", R,
    cuda_resource, managed_resource, pinned_resource) {
    machine const here;
    R             first, second;
    CHECK(first == second);
    CHECK(first.device() == cuda_device::current());
    CHECK(first != R{cuda_device{1}});
    second.deallocate_sync(first.allocate_sync(100, 4096), 100, 4096);
    second.deallocate_sync(first.allocate_sync(100), 100);
}

TEST_CASE_TEMPLATE("cuda_direct: a refusal has the numbers of the device", R, cuda_resource,
                   pinned_resource, managed_resource) {
    machine const here;
    R             mr;
    try {
        (void)mr.allocate_sync(std::size_t{1} << 50, 1024);
        FAIL("nobody has that much");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == std::size_t{1} << 50);
        CHECK(e.numbers().rounded == (std::size_t{1} << 50) + 768);
        CHECK(e.numbers().alignment == 1024);
        bool const of_device = !has_property<R, host_accessible>;
        CHECK(e.numbers().device_total == (of_device ? cuda_memory_info().total : 0));
        CHECK(e.numbers().device_free <= e.numbers().device_total);
    }
    CHECK(mr.try_allocate_sync(std::size_t{1} << 50) == nullptr);
}

TEST_CASE_TEMPLATE("cuda_direct: foreign pointers and double frees are reported and ignored", R,
                   cuda_resource, managed_resource, pinned_resource) {
    machine const here;
    mishaps const told;
    R             mr;
    int           mine = 0;
    mr.deallocate_sync(&mine, 4);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.pointer() == &mine);
    void* const p = mr.allocate_sync(100);
    mr.deallocate_sync(p, 100);
    mr.deallocate_sync(p, 100);
    CHECK(told.count(error_kind::foreign_pointer) == 2);
    CHECK(told.count() == 2);
}

TEST_CASE_TEMPLATE(
    "cuda_direct: a free with another alignment is reported, and the memory is freed", R,
    cuda_resource, managed_resource, pinned_resource) {
    machine const here;
    mishaps const told;
    R             mr;
    mr.deallocate_sync(mr.allocate_sync(100, 8192), 100, 256);
    CHECK(told.count(error_kind::wrong_alignment) == 1);
    mr.deallocate_sync(mr.allocate_sync(100, 256), 100, 8192);
    CHECK(told.count(error_kind::wrong_alignment) == 2);
    CHECK(told.count() == 2);
}

TEST_CASE_TEMPLATE("cuda_direct: memory is allocated and freed during a capture", R, cuda_resource,
                   managed_resource, pinned_resource) {
    machine const     here;
    R                 mr;
    cuda_stream const s;
    cudaGraph_t       graph = nullptr;
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    mr.deallocate_sync(mr.allocate_sync(100), 100);
    mr.deallocate_sync(mr.try_allocate_sync(100, 1024), 100, 1024);
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_direct: an alignment that is not a power of two is a broken contract") {
    machine const                  here;
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)cuda_resource{}.allocate_sync(100, 48), doubles::broken_contract);
    CHECK_THROWS_AS((void)cuda_resource{}.allocate_sync(100, 0), doubles::broken_contract);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE_TEMPLATE("cuda_direct: it allocates on its device, with any current device", R,
                   cuda_resource, managed_resource, pinned_resource) {
    machine const here;
    R             mr{cuda_device{1}};
    char const*   call = std::is_same_v<R, cuda_resource>     ? "cudaMalloc"
                         : std::is_same_v<R, pinned_resource> ? "cudaHostAlloc"
                                                              : "cudaMallocManaged";
    void* const   p    = mr.allocate_sync(100);
    CHECK(doubles::cudart::device_of_last(call) == 1);
    CHECK(cuda_device::current() == cuda_device{0});
    mr.deallocate_sync(p, 100);
    CHECK(doubles::cudart::device_of_last(std::is_same_v<R, pinned_resource> ? "cudaFreeHost"
                                                                             : "cudaFree") == 1);
}

TEST_CASE_TEMPLATE("cuda_direct: a failure of any call changes nothing", R, cuda_resource,
                   managed_resource, pinned_resource) {
    machine const here;
    R             mr{cuda_device{1}};
    for (std::size_t const alignment : {256, 4096}) {
        void*      p    = nullptr;
        auto const give = [&] { mr.deallocate_sync(std::exchange(p, nullptr), 100, alignment); };
        // Get and set the device, allocate; failures of the guards' other calls are reported only.
        CHECK(tests::walk_failures([&] { p = mr.allocate_sync(100, alignment); }, give) == 6);
        CHECK(tests::walk_failures([&] { p = mr.try_allocate_sync(100, alignment); }, give) == 0);
        tests::walk_reports([&] { p = mr.allocate_sync(100, alignment); },
                            [&] { mr.deallocate_sync(p, 100, alignment); });
    }
}

TEST_CASE("cuda_direct: try_allocate returns null if any call refuses") {
    machine const here;
    cuda_resource mr{cuda_device{1}};
    for (char const* const call : {"cudaGetDevice", "cudaSetDevice", "cudaMalloc"}) {
        doubles::cudart::fail(call, cudaErrorUnknown);
        CHECK(mr.try_allocate_sync(100) == nullptr);
        CHECK(doubles::cudart::forgive());
        CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
}

TEST_CASE("cuda_direct: if the host has no memory for the bookkeeping, the block is freed and "
          "out_of_memory thrown") {
    machine const here;
    cuda_resource mr;
    bool          hit = true;
    for (std::uint64_t n = 1; hit; ++n) {
        void*            p       = nullptr;
        bool             refused = false;
        doubles::bombing armed{n};
        try {
            p = mr.allocate_sync(100, 4096);
        } catch (std::bad_alloc const&) { refused = true; }
        hit = armed.defuse();
        CHECK(refused == hit);
        mr.deallocate_sync(p, 100, 4096);
        CHECK(doubles::cudart::out() == doubles::cudart::census{});
    }
}

TEST_CASE("cuda_direct: a refusal is thrown even if its numbers cannot be queried") {
    machine const here;
    doubles::cudart::fail("cudaMemGetInfo", cudaErrorUnknown);
    try {
        (void)cuda_resource{}.allocate_sync(std::size_t{1} << 50);
        FAIL("nobody has that much");
    } catch (out_of_memory const& e) { CHECK(e.numbers().device_total == 0); }
    CHECK(doubles::cudart::forgive());
}
#endif
