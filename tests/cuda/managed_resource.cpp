// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/managed_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/pinned_resource.hpp>

using namespace vram;
using tests::machine;

TEST_CASE("managed_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return managed_resource{}; },
                 {.largest_alignment = 64_KiB, .operations = 300});
}

TEST_CASE("managed_resource: locations are those of CUDA") {
    machine const          here;
    managed_resource const mr;
    CHECK(mr.here().type == cudaMemLocationTypeDevice);
    CHECK(mr.here().id == mr.device().ordinal());
    CHECK(managed_resource::at(cuda_device{3}).id == 3);
    CHECK(managed_resource::host().type == cudaMemLocationTypeHost);
}

TEST_CASE("managed_resource: advice and prefetch move pages, and keep contents") {
    machine const     here;
    managed_resource  mr;
    cuda_stream const s;
    auto* const       p = static_cast<std::byte*>(mr.allocate_sync(1_MiB));
    p[5]                = std::byte{42};
    mr.advise(p, 1_MiB, cudaMemAdviseSetPreferredLocation, mr.here());
    mr.advise(p, 1_MiB, cudaMemAdviseSetReadMostly, mr.here());
    mr.prefetch(s, p, 1_MiB, mr.here());
    mr.prefetch(s, p, 1_MiB, managed_resource::host());
    s.synchronize();
    CHECK(p[5] == std::byte{42});
    CHECK_NOTHROW(mr.advise(nullptr, 0, cudaMemAdviseSetReadMostly, mr.here()));
    CHECK_NOTHROW(mr.prefetch(s, nullptr, 0, mr.here()));
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("managed_resource: memory that is not managed accepts no advice") {
    machine const          here;
    managed_resource const mr;
    cuda_stream const      s;
    pinned_resource        other;
    void* const            p = other.allocate_sync(4096);
    CHECK_THROWS_AS(mr.advise(p, 4096, cudaMemAdviseSetPreferredLocation, mr.here()), cuda_error);
    CHECK_THROWS_AS(mr.prefetch(s, p, 4096, mr.here()), cuda_error);
    other.deallocate_sync(p, 4096);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("managed_resource: every error of the runtime is thrown") {
    machine const    here;
    managed_resource mr;
    auto const       nothing = [] {};
    void* const      p       = mr.allocate_sync(4096);
    CHECK(tests::walk_failures([&] { mr.advise(p, 4096, cudaMemAdviseSetReadMostly, mr.here()); },
                               nothing) == 2);
    CHECK(tests::walk_failures([&] { mr.prefetch({}, p, 4096, mr.here()); }, nothing) == 2);
    mr.deallocate_sync(p, 4096);
}
#endif
