// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/registered_resource.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"
#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>

#include <sys/mman.h> // msync, munmap

#include <cstring> // memset
#include <vector>  // vector

using namespace vram;
using namespace vram::detail;
using tests::machine;

TEST_CASE("registered_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source(
        [] { return registered_resource{cuda_device::current(), {.pages = {.threads = 2}}}; },
        {.largest_alignment = 64_KiB, .operations = 100});
}

TEST_CASE(
    "registered_resource: its memory is pinned to the last byte, and is copied asynchronously") {
    machine const       here;
    registered_resource mr{cuda_device::current(), {.numa_local = true}};
    cuda_resource       device;
    cuda_stream const   stream;
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{5000}, 2_MiB, 7_MiB + 1}) {
        auto* const p = static_cast<unsigned char*>(mr.allocate_sync(bytes));
        void* const d = device.allocate_sync(bytes);
        CHECK(cuda_memory_kind(p) == memory_kind::pinned);
        CHECK(cuda_memory_kind(p + bytes - 1) == memory_kind::pinned);
        std::memset(p, 5, bytes);
        cuda_copy(stream, d, p, bytes);
        stream.synchronize();
        std::memset(p, 6, bytes);
        cuda_copy(stream, p, d, bytes);
        stream.synchronize();
        CHECK(p[0] == 5);
        CHECK(p[bytes - 1] == 5);
        device.deallocate_sync(d, bytes);
        mr.deallocate_sync(p, bytes);
    }
}

TEST_CASE("registered_resource: any two can free each other's memory, and a pool works over one") {
    machine const       here;
    registered_resource a, b;
    CHECK(a == b);
    void* const p = a.allocate_sync(10'000);
    b.deallocate_sync(p, 10'000);
    pool<registered_resource> all{registered_resource{}};
    void* const               x = all.allocate_sync(100);
    void* const               y = all.allocate_sync(3_MiB);
    CHECK(cuda_memory_kind(x) == memory_kind::pinned);
    CHECK(cuda_memory_kind(y) == memory_kind::pinned);
    all.deallocate_sync(x, 100);
    all.deallocate_sync(y, 3_MiB);
}

TEST_CASE("registered_resource: a foreign pointer is reported and ignored") {
    machine const          here;
    doubles::mishaps const told;
    registered_resource    mr;
    pinned_resource        other;
    void* const            p = other.allocate_sync(4096);
    mr.deallocate_sync(p, 4096);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(cuda_memory_kind(p) == memory_kind::pinned);
    other.deallocate_sync(p, 4096);
    CHECK(told.count() == 1);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("registered_resource: every error of the runtime leaves nothing pinned") {
    machine const       here;
    registered_resource mr;
    void*               p = nullptr;
    CHECK(tests::walk_failures([&] { p = mr.allocate_sync(3_MiB); },
                               [&] { mr.deallocate_sync(p, 3_MiB); }) >= 4);
    tests::walk_reports([&] { p = mr.allocate_sync(3_MiB); },
                        [&] { mr.deallocate_sync(p, 3_MiB); });
}

TEST_CASE(
    "registered_resource: if the host has no memory for the bookkeeping, nothing stays pinned") {
    machine const       here;
    registered_resource mr{cuda_device::current(), {.pages = {.threads = 1}}};
    for (std::uint64_t n = 1; n < 10; ++n) {
        doubles::bombing armed{n};
        void* const      p      = mr.try_allocate_sync(5000);
        bool const       struck = armed.defuse();
        CHECK((p != nullptr || struck));
        CHECK(doubles::cudart::out().registered == (p != nullptr ? 1U : 0U));
        mr.deallocate_sync(p, 5000);
        CHECK(doubles::cudart::out().registered == 0);
    }
}

TEST_CASE("registered_resource: addresses that are registered already are not unregistered") {
    machine const       here;
    registered_resource mr;
    for (unsigned times = 1; times <= 2; ++times) {
        auto const before = doubles::cudart::calls("cudaHostRegister");
        auto const undone = doubles::cudart::calls("cudaHostUnregister");
        doubles::cudart::fail("cudaHostRegister", cudaErrorHostMemoryAlreadyRegistered, 1, times);
        void* const p = mr.allocate_sync(3_MiB);
        doubles::cudart::forgive();
        CHECK(p != nullptr);
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        CHECK(doubles::cudart::calls("cudaHostRegister") == before + 2);
        // The second addresses belong to this resource. If they are registered already too, they
        // stay registered.
        CHECK(doubles::cudart::out().registered == (times == 1 ? 1U : 0U));
        static_cast<char*>(p)[3_MiB - 1] = 1;
        mr.deallocate_sync(p, 3_MiB);
        CHECK(doubles::cudart::calls("cudaHostUnregister") == undone + (times == 1 ? 1 : 0));
    }
}

TEST_CASE("registered_resource: a limit of pinned pages is an out_of_memory") {
    machine const       here;
    registered_resource mr;
    doubles::cudart::fail("cudaHostRegister", cudaErrorMemoryAllocation);
    CHECK_THROWS_AS((void)mr.allocate_sync(4096), out_of_memory);
    doubles::cudart::fail("cudaHostRegister", cudaErrorNotSupported);
    CHECK_THROWS_AS((void)mr.allocate_sync(4096), cuda_error);
}

TEST_CASE("registered_resource: pages that cannot be unregistered stay mapped, also if the host "
          "has no memory for the bookkeeping") {
    machine const          here;
    registered_resource    mr{cuda_device::current(), {.pages = {.threads = 1}}};
    doubles::mishaps const told;
    std::size_t            bytes = 5000;
    bool                   hit   = true;
    for (std::uint64_t n = 1; hit; ++n) {
        doubles::cudart::fail("cudaHostUnregister", cudaErrorUnknown);
        doubles::bombing armed{n};
        void* const      p      = mr.try_allocate_sync(bytes);
        hit                     = armed.defuse();
        bool const unregistered = doubles::cudart::forgive();
        if (unregistered) {
            CHECK(p == nullptr);
            void* const at = const_cast<void*>(told.last().pointer);
            CHECK(::msync(at, bytes, MS_ASYNC) == 0); // fails if the pages are not mapped
            CHECK(::munmap(at, bytes) == 0);
        }
        mr.deallocate_sync(p, bytes);
    }
    CHECK(told.count() == 1);
}
#endif
