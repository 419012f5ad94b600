// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/growing_base.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/interrupted_resource.hpp"
#include "../../doubles/lending_resource.hpp"
#include "../../doubles/minimal_resource.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

using namespace vram;
using namespace vram::detail;
using namespace vram::literals;

template class vram::detail::growing_base<sim_resource>;
template class vram::detail::growing_base<stream_ordered<sim_resource>>;

namespace {

/// The bare functions of the base, over an upstream that counts.
template <class Upstream>
struct growing_pool : growing_base<Upstream> {
    using base = growing_base<Upstream>;

    explicit growing_pool(std::size_t max_size) : base{"pool", Upstream{}, max_size} {}

    template <bool Throwing>
    void* chunk_of(std::size_t bytes) {
        return this->template grow<Throwing>(bytes, 256, nullptr, [](void* at) { return at; });
    }
    void* unrecorded_chunk(std::size_t bytes, typename base::stream const* order = nullptr) {
        return this->template grow<true>(bytes, 256, order,
                                         [](void*) -> void* { throw std::bad_alloc{}; });
    }
    void* ready_chunk(std::size_t bytes, bool recorded = true) {
        return this->grow_ready(bytes, 256, {}, [=](void* at) {
            if (!recorded) { throw std::bad_alloc{}; }
            return at;
        });
    }
    void return_chunk(void* at, std::size_t bytes) {
        auto held = this->lock_.hold();
        this->give_back(at, bytes, 256, held);
        CHECK(held.owns_lock());
    }
    void* refuse(std::size_t bytes) {
        return this->or_throw(
            {bytes, bytes, 256, nullptr}, [] { return nullptr; }, [] { return std::size_t{77}; });
    }
    using base::or_null;
    [[nodiscard]] memory_usage const& held() const { return this->budget_.usage; }
};

} // namespace

TEST_CASE("growing_base: it never exceeds the limit, and returned memory makes room") {
    growing_pool<doubles::archetype<>> mr{1000};
    void* const                        p = mr.chunk_of<true>(600);
    CHECK(mr.chunk_of<true>(401) == nullptr);
    void* const q = mr.chunk_of<false>(400);
    CHECK(mr.held().reserved == 1000);
    CHECK(mr.held().upstream == 2);
    mr.return_chunk(p, 600);
    CHECK(mr.held().reserved == 400);
    CHECK(mr.held().upstream == 3);
    CHECK(mr.held().peak_reserved == 1000);
    mr.return_chunk(q, 400);
    CHECK(mr.held().upstream == 4);
    CHECK(mr.upstream().usage().live == 0);
}

TEST_CASE("growing_base: a chunk without host memory for its descriptor is returned, and the limit "
          "unchanged") {
    growing_pool<doubles::archetype<>> mr{1000};
    CHECK_THROWS_AS((void)mr.unrecorded_chunk(1000), std::bad_alloc);
    CHECK(mr.held().reserved == 0);
    CHECK(mr.upstream().usage().live == 0);
    void* const p = mr.chunk_of<true>(1000);
    CHECK(p != nullptr);
    mr.return_chunk(p, 1000);
}

TEST_CASE("growing_base: a ready chunk without a descriptor is returned in its stream's order, "
          "without a wait") {
    sim_node                         node{{.on_report = sim_on_report::collect}};
    sim_stream                       s, other;
    growing_pool<sim_async_resource> mr{1_MiB};
    sim_stream_view const            order = s;
    void* const                      p     = mr.upstream().allocate(s, 1_MiB);
    doubles::busy(s, p, 1_MiB);
    // The stream may use the memory at once, although its work is unfinished.
    mr.upstream().deallocate(s, p, 1_MiB);
    CHECK_THROWS_AS((void)mr.unrecorded_chunk(1_MiB, &order), std::bad_alloc);
    CHECK_FALSE(s.done());
    CHECK(mr.held().upstream == 2);
    CHECK(mr.held().reserved == 0);
    sim_graph::begin(s);
    CHECK_THROWS_AS((void)mr.unrecorded_chunk(1_MiB, &order), std::bad_alloc);
    CHECK_NOTHROW((void)sim_graph::end(s)); // no capture is broken either
    void* const q = mr.upstream().allocate(other, 1_MiB);
    doubles::busy(other, q, 1_MiB);
    mr.upstream().deallocate(other, q, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("growing_base: a refusal has the resource's own numbers, and the limit's") {
    growing_pool<doubles::minimal_resource<>> mr{1000};
    void* const                               p = mr.chunk_of<true>(600);
    try {
        (void)mr.refuse(500);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 500);
        CHECK(e.numbers().reserved == 600);
        CHECK(e.numbers().limit == 1000);
        CHECK(e.numbers().largest_free == 77);
    }
    CHECK(mr.or_null(1, []() -> void* { throw std::bad_alloc{}; }) == nullptr);
    CHECK(mr.or_null(1, [&] { return p; }) == p);
    mr.return_chunk(p, 600);
}

TEST_CASE("growing_base: memory being allocated from the upstream counts against the limit") {
    growing_pool<doubles::interrupted_resource> mr{1000};
    mr.upstream().meanwhile = [&] { CHECK(mr.chunk_of<true>(401) == nullptr); };
    void* const p           = mr.chunk_of<true>(600);
    CHECK(mr.held().reserved == 600);
    mr.return_chunk(p, 600);
}

TEST_CASE("growing_base: memory being returned counts until the upstream has it") {
    growing_pool<doubles::interrupted_resource> mr{1000};
    void* const                                 p = mr.chunk_of<true>(600);
    mr.upstream().meanwhile                       = [&] {
        CHECK(mr.held().reserved == 0);
        CHECK(mr.chunk_of<true>(401) == nullptr);
    };
    mr.return_chunk(p, 600);
    void* const q = mr.chunk_of<true>(1000);
    REQUIRE(q != nullptr);
    mr.return_chunk(q, 1000);
}

TEST_CASE("growing_base: a concurrent request for ready memory causes no refusal") {
    growing_pool<doubles::lending_resource<>> mr{1000};
    doubles::lending_resource<>&              up = mr.upstream();
    void*                                     p  = nullptr;
    up.meanwhile                                 = [&] { p = mr.chunk_of<true>(401); };
    CHECK(mr.ready_chunk(600) == nullptr);
    CHECK(p != nullptr);
    CHECK(up.asked == 1);
    CHECK(mr.ready_chunk(600) == nullptr);
    CHECK(up.asked == 1); // there is no room for it
    mr.return_chunk(p, 401);
    up.lends      = true;
    void* const q = mr.ready_chunk(1000);
    CHECK(q != nullptr);
    CHECK(mr.held().reserved == 1000);
    CHECK(mr.held().upstream == 3);
    mr.return_chunk(q, 1000);
}

TEST_CASE("growing_base: a ready chunk above the limit is returned in order") {
    growing_pool<doubles::lending_resource<>> mr{1000};
    doubles::lending_resource<>&              up = mr.upstream();
    up.lends                                     = true;
    void* p                                      = nullptr;
    up.meanwhile                                 = [&] { p = mr.chunk_of<true>(401); };
    CHECK(mr.ready_chunk(600) == nullptr);
    CHECK(up.came_in_order == 1);
    CHECK(up.usage().live == 401);
    CHECK(mr.held().reserved == 401);
    CHECK(mr.held().upstream == 3);
    mr.return_chunk(p, 401);
}

TEST_CASE("growing_base: without host memory there is no ready memory, and no refusal") {
    growing_pool<doubles::lending_resource<>> mr{1000};
    doubles::lending_resource<>&              up = mr.upstream();
    up.lends                                     = true;
    CHECK(mr.ready_chunk(600, false) == nullptr);
    CHECK(up.came_in_order == 1);
    up.fails = true;
    CHECK(mr.ready_chunk(600) == nullptr);
    CHECK(up.asked == 2);
    CHECK(up.usage().live == 0);
    CHECK(mr.held().reserved == 0);
    void* const p = mr.chunk_of<true>(1000);
    CHECK(p != nullptr);
    mr.return_chunk(p, 1000);
}

TEST_CASE("growing_base: a refusal states the memory of the resource's device, or of none") {
    sim_node node{{.devices = 2, .capacity = 16_MiB, .backed = false}};
    node.take(1, 10_MiB); // another process has most of device 1
    auto const numbers_of = [](auto mr) {
        try {
            (void)mr.allocate_sync(100_GiB);
        } catch (out_of_memory const& e) { return e.numbers(); }
        FAIL("it does not fit");
        return shortage{};
    };
    auto const bounded = numbers_of(pool{sim_resource{sim_device{1}}, {.max_size = 1_MiB}});
    CHECK(bounded.device_free == 6_MiB);
    CHECK(bounded.device_total == 16_MiB);
    CHECK(numbers_of(pool{stream_ordered{sim_resource{sim_device{1}}}}).device_free == 6_MiB);
    CHECK(numbers_of(arena{stream_ordered{sim_resource{sim_device{1}}}}).device_free == 6_MiB);
    CHECK(numbers_of(sim_resource{sim_device{1}}).device_free == 6_MiB);
    CHECK(numbers_of(pool{sim_resource{}}).device_free == 16_MiB);
    for (shortage const& n :
         {numbers_of(pool{sim_pinned_resource{}}), numbers_of(sim_pinned_resource{}),
          numbers_of(pool{sim_managed_resource{}}),
          numbers_of(stream_ordered{sim_managed_resource{}})}) {
        CHECK(n.asked == 100_GiB);
        CHECK(n.device_free == 0);
        CHECK(n.device_total == 0);
    }
    pool held{any_resource<sim_platform>{sim_async_resource{sim_device{1}}}, {.max_size = 1_MiB}};
    sim_stream const near; // of device 0
    try {
        (void)held.allocate(near, 2_MiB);
        FAIL("it is above the limit");
    } catch (out_of_memory const& e) { CHECK(e.numbers().device_free == 6_MiB); }
    pool<sim_resource, device_share_growth> half{sim_resource{sim_device{1}}};
    void* const                             p = half.allocate_sync(2_MiB);
    CHECK(half.usage().reserved == 2_MiB); // half of 6 MiB, in units of 2 MiB
    half.deallocate_sync(p, 2_MiB);
}
