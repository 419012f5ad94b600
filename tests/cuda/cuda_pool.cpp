// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_pool.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/base/bytes.hpp>

#include <optional> // optional

using namespace vram;
using tests::machine;

static_assert(std::is_nothrow_move_constructible_v<cuda_pool>);
static_assert(std::is_nothrow_move_assignable_v<cuda_pool>);
static_assert(!std::is_copy_constructible_v<cuda_pool>);

namespace {

void* take(cuda_pool const& pool, cuda_stream const& s, std::size_t bytes) {
    void* p = nullptr;
    cuda_check(cudaMallocFromPoolAsync(&p, bytes, pool.get(), s.get()));
    return p;
}

int setting(cuda_pool const& pool, cudaMemPoolAttr which) {
    int value = -1;
    cuda_check(cudaMemPoolGetAttribute(pool.get(), which, &value));
    return value;
}

} // namespace

TEST_CASE("cuda_pool: it is created with the given options") {
    machine const   here;
    cuda_pool const plain{cuda_device::current()};
    cuda_pool const strict{cuda_device::current(),
                           {.release_threshold   = 5_MiB,
                            .maximum_size        = 64_MiB,
                            .reuse_after_events  = false,
                            .reuse_when_finished = false,
                            .reuse_by_waiting    = false}};
    for (auto const which :
         {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
          cudaMemPoolReuseAllowInternalDependencies}) {
        CHECK(setting(plain, which) == 1);
        CHECK(setting(strict, which) == 0);
    }
    std::uint64_t threshold = 0;
    cuda_check(cudaMemPoolGetAttribute(plain.get(), cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(threshold == unsatisfiable);
    cuda_check(cudaMemPoolGetAttribute(strict.get(), cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(threshold == 5_MiB);
    CHECK(strict.maximum_size() == 64_MiB);
    CHECK(strict.device() == cuda_device::current());
}

TEST_CASE("cuda_pool: it reserves its initial size from the start") {
    machine const   here;
    cuda_pool const pool{cuda_device::current(), {.initial_size = 40_MiB}};
    CHECK(pool.usage().reserved >= 40_MiB);
    CHECK(pool.usage().live == 0);
}

TEST_CASE("cuda_pool: it has live and reserved bytes, and trim returns the rest") {
    machine const     here;
    cuda_pool         pool{cuda_device::current()};
    cuda_stream const s;
    CHECK(pool.usage() == memory_usage{});
    void* const p = take(pool, s, 40_MiB);
    void* const q = take(pool, s, 80_MiB);
    CHECK(pool.usage().live >= 120_MiB);
    CHECK(pool.usage().reserved >= pool.usage().live);
    cuda_check(cudaFreeAsync(q, s.get()));
    s.synchronize();
    CHECK(pool.usage().live < 80_MiB);
    CHECK(pool.usage().peak_live >= 120_MiB);

    auto const held = pool.usage().reserved;
    CHECK(pool.trim(unsatisfiable) == 0); // everything may be kept
    CHECK(pool.usage().reserved == held);
    std::size_t const gone = pool.trim();
    CHECK(gone >= 64_MiB); // in whole pieces of the driver's
    CHECK(pool.usage().reserved == held - gone);
    CHECK(pool.usage().reserved >= 40_MiB); // live memory stays
    CHECK(pool.usage().peak_reserved == held);
    cuda_check(cudaFreeAsync(p, s.get()));
    s.synchronize();
    pool.trim();
    CHECK(pool.usage().reserved == 0);
}

TEST_CASE("cuda_pool: it never exceeds its maximum") {
    machine const     here;
    cuda_pool const   pool{cuda_device::current(), {.maximum_size = 64_MiB}};
    cuda_stream const s;
    void*             p = nullptr;
    CHECK(cudaMallocFromPoolAsync(&p, 128_MiB, pool.get(), s.get()) == cudaErrorMemoryAllocation);
    (void)cudaGetLastError();
    CHECK_THROWS_AS(
        (cuda_pool{cuda_device::current(), {.initial_size = 128_MiB, .maximum_size = 64_MiB}}),
        out_of_memory);
}

TEST_CASE("cuda_pool: a moved-from pool is empty") {
    machine const here;
    cuda_pool     first{cuda_device::current(), {.maximum_size = 64_MiB}};
    auto const    raw = first.get();
    cuda_pool     second{std::move(first)};
    CHECK(second.get() == raw);
    CHECK(first.get() == nullptr);
    cuda_pool third{cuda_device::current()};
    third = std::move(second);
    CHECK(third.get() == raw);
    CHECK(third.maximum_size() == 64_MiB);
    auto& same = third;
    third      = std::move(same);
    CHECK(third.get() == raw);
}

TEST_CASE("cuda_pool: destroyed with live memory, it exists until that is freed") {
    machine const     here;
    cuda_stream const s;
    void*             p = nullptr;
    {
        cuda_pool const pool{cuda_device::current()};
        p = take(pool, s, 1_MiB);
    }
    cuda_check(cudaFreeAsync(p, s.get()));
    s.synchronize();
}

TEST_CASE("cuda_pool: access of an unknown device is refused") {
    machine const here;
    cuda_pool     pool{cuda_device::current()};
    CHECK_NOTHROW(pool.allow_access(cuda_device::current()));
    CHECK_THROWS_AS(pool.allow_access(cuda_device{99}), cuda_error);
    CHECK_THROWS_AS(pool.deny_access(cuda_device::current()),
                    cuda_error); // a device keeps its own memory
    CHECK_THROWS_AS(cuda_pool{cuda_device{99}}, cuda_error);
}

TEST_CASE("cuda_pool: no function breaks a capture of the same thread") {
    machine const     here;
    cuda_stream const s;
    cuda_pool         pool{cuda_device::current()};
    cudaGraph_t       graph = nullptr;
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    pool.trim();
    (void)pool.usage();
    pool.allow_access(cuda_device::current());
    { cuda_pool const brief{cuda_device::current(), {.initial_size = 1_MiB}}; }
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_pool: access of a peer is granted and revoked") {
    machine const here;
    cuda_pool     pool{cuda_device{0}};
    auto const    access = [&] {
        cudaMemAccessFlags flags{};
        cudaMemLocation    peer{};
        peer.type = cudaMemLocationTypeDevice;
        peer.id   = 1;
        cuda_check(cudaMemPoolGetAccess(&flags, pool.get(), &peer));
        return flags;
    };
    CHECK(access() == cudaMemAccessFlagsProtNone);
    pool.allow_access(cuda_device{1});
    CHECK(access() == cudaMemAccessFlagsProtReadWrite);
    pool.deny_access(cuda_device{1});
    CHECK(access() == cudaMemAccessFlagsProtNone);
}

TEST_CASE("cuda_pool: a device without pools refuses") {
    machine const here{{.pools = false}};
    try {
        cuda_pool const pool{cuda_device::current()};
        FAIL("it throws");
    } catch (cuda_error const& e) { CHECK(e.status() == cudaErrorNotSupported); }
}

TEST_CASE("cuda_pool: a failure of any call leaves nothing behind") {
    machine const            here;
    auto const               nothing = [] {};
    std::optional<cuda_pool> made;
    auto const               destroy = [&] { made.reset(); };
    // get and set the device, create, four settings; then a stream and its id, a block that comes
    // and goes, the wait
    CHECK(tests::walk_failures([&] { made.emplace(cuda_device{1}); }, destroy) == 14);
    cuda_pool_options const filled{.initial_size = 1000};
    CHECK(tests::walk_failures([&] { made.emplace(cuda_device{1}, filled); }, destroy) == 28);

    cuda_pool pool{cuda_device{1}};
    CHECK(tests::walk_failures([&] { (void)pool.usage(); }, nothing) == 8);
    CHECK(tests::walk_failures([&] { pool.trim(); }, nothing) == 4); // nothing to trim
    cuda_pool full{cuda_device{1}, filled};
    for (std::uint64_t n : {2, 3, 4}) { // the figures, the trimming, the figure after it
        doubles::cudart::fail_nth(n, cudaErrorUnknown);
        CHECK_THROWS_AS(full.trim(), cuda_error);
        CHECK(doubles::cudart::forgive());
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        CHECK(full.usage().reserved >= 1000);
    }
    doubles::cudart::fail_nth(5, cudaErrorUnknown);
    CHECK_THROWS_AS(full.trim(), cuda_error);
    CHECK(doubles::cudart::forgive());
    CHECK(full.usage().reserved == 0); // the pool was trimmed, but the number of bytes is unknown
    CHECK(tests::walk_failures([&] { pool.allow_access(cuda_device{0}); }, nothing) == 2);
}

TEST_CASE("cuda_pool: a failure in its destructor is reported") {
    machine const          here;
    doubles::mishaps const told;
    {
        cuda_pool const pool{cuda_device{0}};
        doubles::cudart::fail("cudaMemPoolDestroy", cudaErrorUnknown);
    }
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::platform_error) == 1);
}
#endif
