// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/locked.hpp> // first: the header stands alone

#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/region_resource.hpp>

#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

#include <atomic>
#include <chrono>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::locked<doubles::archetype<>>;
template class vram::locked<doubles::minimal_resource<>>;

static_assert(!forgetting_resource<locked<doubles::minimal_resource<>>>);

namespace {

alignas(4096) std::byte shared_region[1_MiB];

} // namespace

TEST_CASE("locked: it keeps the laws of a resource") {
    laws::resource([](auto up) { return locked{std::move(up)}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::locked; });
}

TEST_CASE("locked: it forwards forget_captures") {
    locked mr{doubles::archetype<>{}};
    mr.forget_captures();
    CHECK(mr.upstream().forgotten() == 1);
}

TEST_CASE("locked: no failure loses memory") {
    laws::survives_every_failure([](auto up) { return locked{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("locked: four threads use a region that is not thread-safe") {
    locked                   mr{region_resource{shared_region, sizeof shared_region}};
    std::atomic<std::size_t> wrong = 0;
    auto const               use   = [&](unsigned char mine) {
        for (int i = 0; i < 300; ++i) {
            auto* const p = static_cast<unsigned char*>(mr.try_allocate_sync(64));
            if (p == nullptr) { continue; }
            for (int k = 0; k < 64; ++k) { p[k] = mine; }
            for (int k = 0; k < 64; ++k) { wrong += p[k] != mine; }
            wrong += !mr.owns(p);
            wrong += mr.usage().live < 64;
            mr.deallocate_sync(p, 64);
        }
    };
    {
        worker const a{0, [&] { use(1); }}, b{0, [&] { use(2); }}, c{0, [&] { use(3); }},
            d{0, [&] { use(4); }};
    }
    CHECK(wrong == 0);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().largest_free == sizeof shared_region);
}

TEST_CASE("locked: it uses the lock of the platform, so a thread that waits inside the upstream "
          "stops no other") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    locked     mr{sim_resource{}};
    auto const use = [&] {
        sim_stream s;
        for (int i = 0; i < 3; ++i) {
            void* const p = mr.allocate_sync(1_MiB);
            sim_launch(s, {.name = "use", .writes = {{p, 1_MiB}}, .duration = 1ms});
            s.synchronize();
            mr.deallocate_sync(p, 1_MiB); // waits for the whole device, with the lock held
        }
    };
    { sim_thread const a{sim_device{}, use}, b{sim_device{}, use}; }
    CHECK(node.now() == 6ms); // one kernel at a time
    CHECK(node.reports().empty());
}

TEST_CASE("locked: the error sink is called after the unlock, so it may use the layer") {
    sim_node const   node{{.on_report = sim_on_report::collect}};
    sim_stream       s;
    locked           mr{pool<sim_resource>{}};
    doubles::mishaps errors;
    errors.also = [&] {
        mr.deallocate(s, mr.allocate(s, 100), 100);
        CHECK(mr.usage().live == 256);
    };
    void* const p = mr.allocate(s, 200);
    mr.deallocate(s, p, 300);
    CHECK(errors.count(error_kind::wrong_size) == 1);
    mr.deallocate_sync(p, 300);
    CHECK(errors.count(error_kind::wrong_size) == 2);
    CHECK(errors.under_a_lock() == 0);
    errors.also = {};
    mr.deallocate(s, p, 200);
}
