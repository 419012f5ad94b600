// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_directory.hpp> // first: the header stands alone

#include <vram/base/core/lock.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/layer_base.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/counting_resource.hpp"
#include "../../doubles/failing_resource.hpp"
#include "../../doubles/interrupted_resource.hpp"
#include "../../doubles/lending_resource.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace vram;
using namespace vram::detail;

namespace {

using full_upstream = doubles::archetype<>;

std::byte* byte_at(void* p, std::size_t offset) { return static_cast<std::byte*>(p) + offset; }

} // namespace

template class vram::detail::chunk_directory<full_upstream>;
template class vram::detail::chunk_directory<doubles::minimal_resource<>>;

TEST_CASE("chunk_directory: a chunk belongs to its owner until it is returned, and usage follows") {
    full_upstream   up;
    chunk_directory all{up, unsatisfiable, unsatisfiable};
    void* const     p = all.take<true>(3, nullptr, 1000, 256);
    void* const     q = all.take<false>(5, nullptr, 500, 256);
    CHECK(all.owner_of(p) == 3);
    CHECK(all.owner_of(byte_at(p, 999)) == 3);
    CHECK(all.owner_of(byte_at(q, 499)) == 5);
    CHECK(all.owner_of(&all) == chunk_map::nobody);
    all.give(p, 1000, 256);
    CHECK(all.owner_of(p) == chunk_map::nobody);
    memory_usage figures;
    all.report_to(figures);
    CHECK(figures.reserved == 500);
    CHECK(figures.peak_reserved == 1500);
    chunk_directory moved{std::move(all)};
    CHECK(moved.owner_of(q) == 5);
    CHECK(all.reserved() == 0);
    full_upstream elsewhere{std::move(up)};
    moved.rebind(elsewhere);
    moved.give({}, q, 500, 256);
    CHECK(elsewhere.usage().live == 0);
    all = std::move(moved);
    CHECK(all.reserved() == 0);
}

TEST_CASE("chunk_directory: peaks can be reset and raised, and move along") {
    full_upstream   up;
    chunk_directory all{up, unsatisfiable, unsatisfiable};
    void* const     p = all.take<true>(0, nullptr, 1000, 256);
    void* const     q = all.take<true>(1, nullptr, 500, 256);
    all.give(p, 1000, 256);
    auto const figures = [](chunk_directory<full_upstream> const& of, std::size_t live) {
        memory_usage now{.peak_live = live};
        of.report_to(now);
        return now;
    };
    memory_usage const before = all.reset_peaks();
    CHECK(before == memory_usage{.reserved = 500, .peak_reserved = 1500});
    CHECK(figures(all, 400) ==
          memory_usage{.reserved = 500, .peak_live = 400, .peak_reserved = 500, .restarts = 1});
    all.raise_peaks({.peak_live = 900, .peak_reserved = 1500});
    all.raise_peaks({.peak_live = 800, .peak_reserved = 1400}); // lower values change nothing
    CHECK(figures(all, 400) ==
          memory_usage{.reserved = 500, .peak_live = 900, .peak_reserved = 1500, .restarts = 3});
    CHECK(figures(all, 901).peak_live == 901);
    chunk_directory moved{std::move(all)};
    CHECK(figures(all, 0) == memory_usage{});
    CHECK(figures(moved, 0).peak_live == 900);
    CHECK(figures(moved, 0).restarts == 3);
    all = std::move(moved);
    CHECK(figures(moved, 0) == memory_usage{});
    CHECK(all.reset_peaks() ==
          memory_usage{.reserved = 500, .peak_live = 900, .peak_reserved = 1500});
    CHECK(all.reset_peaks().peak_live == 0);
    memory_usage long_ago{.past_peak = 2000};
    all.report_to(long_ago);
    CHECK(long_ago.past_peak == 1500); // the peak of all reserved bytes, independent of resets
    CHECK(long_ago.restarts == 5);
    all.give(q, 500, 256);
}

TEST_CASE("chunk_directory: all owners together never exceed the limit") {
    full_upstream   up;
    chunk_directory all{up, 1000, unsatisfiable};
    void* const     p = all.take<true>(0, nullptr, 600, 256);
    CHECK(all.take<false>(1, nullptr, 401, 256) == nullptr);
    try {
        (void)all.take<true>(1, nullptr, 401, 256);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().limit == 1000);
        CHECK(e.numbers().asked == 401);
        CHECK(e.numbers().reserved == 600);
    }
    CHECK(up.usage().allocations == 1); // the upstream was not asked
    void* const q = all.take<true>(1, nullptr, 400, 256);
    all.give(p, 600, 256);
    all.give(q, 400, 256);
    CHECK(all.reserved() == 0);
}

TEST_CASE("chunk_directory: after any failure the reservation is dropped and nothing is lost") {
    doubles::ledger book;
    doubles::faults plan;
    {
        doubles::failing_resource up{doubles::counting_resource{full_upstream{}, book}, plan};
        chunk_directory           all{up, 1000, unsatisfiable};
        {
            doubles::bombing const armed{1};
            CHECK_THROWS_AS((void)all.take<true>(0, nullptr, 1000, 256), std::bad_alloc);
        }
        CHECK(book.blocks() == 0); // the chunk without a record was returned
        for (bool const broken : {false, true}) {
            plan.as_machine_failure(broken);
            plan.fail_nth(1);
            if (broken) {
                CHECK_THROWS_AS((void)all.take<true>(0, nullptr, 1000, 256),
                                doubles::machine_failure);
            } else {
                CHECK_THROWS_AS((void)all.take<true>(0, nullptr, 1000, 256), out_of_memory);
            }
            plan.fail_nth(0);
        }
        CHECK(all.reserved() == 0);
        void* const p = all.take<true>(0, nullptr, 1000, 256); // the whole limit is available
        all.give(p, 1000, 256);
    }
    CHECK(book.blocks() == 0);
}

TEST_CASE("chunk_directory: it reports a crossed watermark, and again after a reset") {
    full_upstream   up;
    chunk_directory all{up, unsatisfiable, 1000};
    void* const     p = all.take<true>(0, nullptr, 1000, 256);
    CHECK_FALSE(all.above_watermark());
    void* const q = all.take<true>(0, nullptr, 3000, 256);
    CHECK(all.above_watermark());
    all.reset_watermark();
    CHECK_FALSE(all.above_watermark());
    void* const r = all.take<true>(0, nullptr, 1000, 256); // a quarter more
    CHECK_FALSE(all.above_watermark());
    void* const s = all.take<true>(0, nullptr, 1, 256);
    CHECK(all.above_watermark());
    all.give(q, 3000, 256);
    all.give(r, 1000, 256);
    all.give(s, 1, 256);
    all.give(p, 1000, 256);
    all.reset_watermark(); // never less than the initial value
    void* const t = all.take<true>(0, nullptr, 1000, 256);
    CHECK_FALSE(all.above_watermark());
    void* const u = all.take<true>(0, nullptr, 1, 256);
    CHECK(all.above_watermark());
    all.give(t, 1000, 256);
    all.give(u, 1, 256);
}

namespace {

/// Requires that no lock of the registry is held.
template <class Upstream>
struct unlocked_only : layer_base<Upstream> {
    explicit unlocked_only(Upstream up) : layer_base<Upstream>{std::move(up)} {}

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        CHECK(detail::locks_held == 0);
        return this->upstream_.allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        CHECK(detail::locks_held == 0);
        this->upstream_.deallocate_sync(p, n, a);
    }
};

} // namespace

TEST_CASE("chunk_directory: no lock is held during calls of the upstream, and threads may be "
          "concurrent") {
    unlocked_only   up{full_upstream{}};
    chunk_directory all{up, unsatisfiable, unsatisfiable};
    auto const      some = [&](unsigned owner) {
        return [&all, owner] {
            for (int i = 0; i < 300; ++i) {
                void* const p = all.take<true>(owner, nullptr, 512, 256);
                void* const q = all.take<true>(owner, nullptr, 256, 256);
                if (all.owner_of(byte_at(p, 100)) != owner) { throw 0; }
                all.give(p, 512, 256);
                all.give(q, 256, 256);
            }
        };
    };
    { worker const a{0, some(0)}, b{0, some(1)}, c{0, some(2)}, d{0, some(3)}; }
    CHECK(all.reserved() == 0);
}

TEST_CASE("chunk_directory: a chunk is removed before another thread can get its address") {
    doubles::interrupted_resource up;
    chunk_directory               all{up, unsatisfiable, unsatisfiable};
    void* const                   p     = all.take<true>(3, nullptr, 1000, 256);
    bool                          known = true;
    up.meanwhile                        = [&] { known = all.owner_of(p) != chunk_map::nobody; };
    all.give(p, 1000, 256);
    CHECK_FALSE(known);
}

TEST_CASE("chunk_directory: memory being allocated or returned counts against the limit") {
    doubles::interrupted_resource up;
    chunk_directory               all{up, 1000, unsatisfiable};
    up.meanwhile  = [&] { CHECK(all.take<false>(1, nullptr, 401, 256) == nullptr); };
    void* const p = all.take<true>(0, nullptr, 600, 256);
    CHECK(all.reserved() == 600);
    up.meanwhile = [&] {
        CHECK(all.take<false>(1, nullptr, 401, 256) == nullptr);
    }; // the chunk is not returned yet
    all.give(p, 600, 256);
    void* const q = all.take<true>(1, nullptr, 1000, 256);
    CHECK(all.reserved() == 1000);
    all.give(q, 1000, 256);
}

TEST_CASE("chunk_directory: a concurrent request for ready memory causes no refusal") {
    doubles::lending_resource<> up;
    chunk_directory             all{up, 1000, unsatisfiable};
    void*                       p = nullptr;
    up.meanwhile                  = [&] { p = all.take<true>(1, nullptr, 401, 256); };
    CHECK(all.take_ready(0, {}, 600, 256) == nullptr);
    CHECK(p != nullptr);
    CHECK(all.take_ready(0, {}, 600, 256) == nullptr);
    CHECK(up.asked == 1); // the limit has no room for it
    all.give(p, 401, 256);
    up.lends     = true;
    up.meanwhile = [&] { p = all.take<true>(1, nullptr, 401, 256); };
    CHECK(all.take_ready(0, {}, 600, 256) == nullptr); // the other thread was faster
    CHECK(up.came_in_order == 1);
    CHECK(up.usage().live == 401);
    CHECK(all.reserved() == 401);
    all.give(p, 401, 256);
}

TEST_CASE("chunk_directory: a ready chunk without a place in the map is returned in order") {
    doubles::lending_resource<> up;
    chunk_directory             all{up, 1000, unsatisfiable};
    up.lends = true;
    void* p  = &all;
    {
        doubles::bombing armed{1};
        p = all.take_ready(0, {}, 600, 256);
        CHECK(armed.defuse());
    }
    CHECK(p == nullptr);
    CHECK(up.came_in_order == 1);
    CHECK(up.usage().live == 0);
    CHECK(all.reserved() == 0);
    p = all.take_ready(0, {}, 1000, 256); // the whole limit is available
    CHECK(all.owner_of(p) == 0);
    all.give(p, 1000, 256);
}
