// SPDX-License-Identifier: Apache-2.0

// A pool whose upstream lets blocks grow where they lie. What else a pool does is in pool.cpp.

#include "../doubles/bombing.hpp"
#include "../doubles/growing_resource.hpp"
#include "../doubles/small_pages.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../doubles/watched_blocks.hpp"
#include "../laws/effort.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/graphs_keep.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/resource.hpp"

#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <stdexcept>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;
using doubles::busy;
using doubles::small_page;
using doubles::watched_blocks;

template class vram::in_place_base<doubles::growing_resource<>, geometric_growth>;
template class vram::pool<sim_virtual_resource>;
template class vram::pool<watched_blocks, fixed_growth>;

namespace {

using pool_in_place = pool<watched_blocks>;

struct held_piece {
    void*       at;
    std::size_t bytes;
};
template <class Pool>
held_piece take_piece(Pool& mr, std::size_t bytes) {
    return {mr.allocate_sync(bytes), bytes};
}
template <class Pool>
void give_piece(Pool& mr, held_piece const& p) {
    mr.deallocate_sync(p.at, p.bytes);
}

/// Takes what is needed, and has a machine of its own that may break.
struct breaking_growth {
    static constexpr bool asks_device = false;

    bool const* broken = nullptr;

    [[nodiscard]] std::size_t operator()(growth_request const& wish) const {
        if (*broken) { throw std::runtime_error{"no policy"}; }
        return wish.needed;
    }
};

void nothing_was_reported(sim_node& node) {
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

} // namespace

TEST_CASE("a pool in place keeps the laws of a resource, and its upstream's books are right") {
    for (pool_options const options :
         {pool_options{}, pool_options{.events = event_policy::eager},
          pool_options{.initial_size = 8 * small_page}, pool_options{.max_size = 40 * small_page},
          pool_options{.graphs = true}}) {
        sim_node            node{doubles::small_pages(4096)};
        doubles::watch      seen;
        laws::options const asked{.room       = 30 * small_page,
                                  .largest    = 8 * small_page,
                                  .operations = 500,
                                  .may_refuse = true}; // in fragments, at the limit
        laws::source([&] { return pool_in_place{watched_blocks{seen}, options}; }, asked);
        laws::source(
            [&] {
                return pool{watched_blocks{seen}, options, fixed_growth{.step = 3 * small_page}};
            },
            asked);
        CHECK(seen.extensions != 0);
        CHECK(seen.shrinks != 0);
        CHECK(seen.blocks() == 0);
        CHECK_FALSE(seen.broken);
        CHECK(node.figures().used == 0);
        nothing_was_reported(node);
    }
}

TEST_CASE("a pool in place has one chunk for small blocks and one for large ones") {
    sim_node                node{doubles::small_pages(4096)};
    doubles::watch          seen;
    pool_in_place           mr{watched_blocks{seen}};
    std::vector<held_piece> all;
    std::size_t             small = 0, large = 0;
    for (std::size_t i = 0; i < 400; ++i) {
        std::size_t const bytes = i % 8 == 0 ? 1_MiB + 256 * i : 256 * (1 + i % 64);
        (bytes > 1_MiB ? large : small) += bytes;
        all.push_back(take_piece(mr, bytes));
    }
    CHECK(seen.blocks() == 2);
    CHECK(seen.allocations == 2);
    CHECK(seen.extensions == mr.usage().upstream - 2);
    CHECK(seen.extensions < (small + large) / small_page); // in steps that are whole pages
    CHECK(mr.usage().reserved < small + large + 2 * small_page);
    CHECK(mr.usage().reserved == seen.bytes());
    CHECK(mr.usage().reserved == node.figures().used);
    for (held_piece const& p : all) { give_piece(mr, p); }
    CHECK(mr.free_memory().releasable == mr.usage().reserved);
    CHECK(mr.trim() == mr.usage().peak_reserved);
    CHECK(node.figures().used == 0);
    nothing_was_reported(node);
}

TEST_CASE(
    "a pool in place gives the end of a chunk back while something is out, and has it again") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}};
    held_piece     all[10];
    for (held_piece& p : all) { p = take_piece(mr, 2_MiB); }
    give_piece(mr, all[2]); // a hole, which stays
    for (std::size_t i = 6; i < 10; ++i) { give_piece(mr, all[i]); }
    CHECK(mr.trim(9_MiB) == 1_MiB); // of the ten that are free
    CHECK(mr.usage().reserved == 19_MiB);
    CHECK(mr.trim() == 7_MiB);
    CHECK(mr.trim() == 0);
    CHECK(node.figures().used == 12_MiB);
    CHECK(seen.blocks() == 1);
    CHECK(take_piece(mr, 2_MiB).at == all[2].at);
    CHECK(take_piece(mr, 2_MiB).at == all[6].at);
    CHECK(mr.usage().reserved == 14_MiB);
    for (std::size_t i = 0; i < 7; ++i) { give_piece(mr, all[i]); }
    CHECK(mr.trim() == 14_MiB);
    CHECK(seen.blocks() == 0);
    CHECK_FALSE(seen.broken);
}

TEST_CASE(
    "a pool in place takes no more than its limit, and moves what it has to where it is asked") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}, {.max_size = 64 * small_page + 256}}; // no whole number
    held_piece const a = take_piece(mr, 32 * small_page);
    held_piece const b = take_piece(mr, 32 * small_page);
    CHECK(mr.usage().reserved == 64 * small_page);
    CHECK(mr.try_allocate_sync(256) == nullptr);
    CHECK_THROWS_AS((void)mr.allocate_sync(256), out_of_memory);
    CHECK_THROWS_AS((void)mr.allocate_sync(32 * small_page), out_of_memory);
    give_piece(mr, b);
    held_piece const c =
        take_piece(mr, 256); // a chunk of its own again: the end of the other goes back
    held_piece const d = take_piece(mr, 31 * small_page);
    CHECK(mr.usage().reserved == 64 * small_page);
    CHECK(mr.usage().peak_reserved == 64 * small_page);
    CHECK(mr.try_allocate_sync(2 * small_page) == nullptr);
    for (held_piece const& p : {a, c, d}) { give_piece(mr, p); }
    give_piece(mr, take_piece(mr, 64 * small_page));
    CHECK_FALSE(seen.broken);
}

TEST_CASE("a pool in place: what one stream may still use at a chunk's end is not waited for") {
    sim_node       node{doubles::small_pages(4096)};
    sim_stream     a, b;
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}, {.initial_size = 8 * small_page}};
    void* const    p = mr.allocate(a, 2 * small_page);
    busy(a, p, 2 * small_page);
    mr.deallocate(a, p, 2 * small_page); // joins with the clean ones
    CHECK(mr.usage().largest_free == 8 * small_page);
    void* const q = mr.allocate(b, 6 * small_page);
    busy(b, q, 6 * small_page);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.usage().events == 0);
    CHECK(mr.usage().reserved == 8 * small_page);
    mr.deallocate(b, q, 6 * small_page);
    void* const r =
        mr.allocate(b, 10 * small_page); // the old part of this, the new one is nobody's
    busy(b, r, 10 * small_page);
    mr.deallocate(b, r, 10 * small_page);
    CHECK(mr.usage().reserved == 10 * small_page);
    nothing_was_reported(node);
}

TEST_CASE(
    "a pool in place: what a captured graph used bars nothing else, and nothing grows in vain") {
    sim_node       node{doubles::small_pages(4096)};
    sim_stream     s, other;
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}, {.initial_size = 8 * small_page, .graphs = true}};
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 2 * small_page);
    mr.deallocate(s, p, 2 * small_page);
    sim_graph const graph = sim_graph::end(s);
    void* const     q     = mr.allocate(other, 6 * small_page);
    CHECK(mr.usage().reserved == 8 * small_page);
    mr.deallocate(other, q, 6 * small_page);
    void* const r = mr.allocate(other, 10 * small_page); // past what the graph has
    CHECK(mr.usage().reserved == 12 * small_page);
    CHECK(seen.blocks() == 1);
    mr.deallocate(other, r, 10 * small_page);
    mr.forget_captures();
    void* const all = mr.allocate(other, 12 * small_page);
    CHECK(mr.usage().reserved == 12 * small_page);
    mr.deallocate(other, all, 12 * small_page);
}

TEST_CASE("a pool in place: a stream that is captured has new memory instead of what is in use") {
    for (bool const graphs : {false, true}) {
        sim_node       node{doubles::small_pages(4096)};
        doubles::watch seen;
        sim_stream     s, other;
        pool_in_place  mr{watched_blocks{seen}, {.initial_size = 4 * small_page, .graphs = graphs}};
        void* const    p = mr.allocate(other, 4 * small_page);
        busy(other, p, 4 * small_page);
        mr.deallocate(other, p, 4 * small_page);
        sim_graph::begin(s);
        void* const     q     = mr.allocate(s, 6 * small_page);
        sim_graph const graph = sim_graph::end(s);
        CHECK(mr.usage().reserved == 10 * small_page);
        CHECK(seen.blocks() == 1);
        CHECK(mr.usage().waits == 0);
        mr.deallocate_sync(q, 6 * small_page);
        nothing_was_reported(node);
    }
}

TEST_CASE("a pool in place starts another chunk where the one that it has cannot grow") {
    sim_node         node{doubles::small_pages(4096)};
    doubles::watch   seen;
    pool_in_place    mr{watched_blocks{seen}};
    held_piece const a = take_piece(mr, 2_MiB);
    seen.refuse        = true;
    held_piece const b = take_piece(mr, 2_MiB);
    CHECK(seen.blocks() == 2);
    seen.refuse        = false;
    held_piece const c = take_piece(mr, 2_MiB);
    CHECK(seen.blocks() == 2);
    CHECK(mr.usage().reserved == 6_MiB);
    for (held_piece const& p : {a, b, c}) { give_piece(mr, p); }
    CHECK(mr.trim() == 6_MiB);
    CHECK_FALSE(seen.broken);
}

TEST_CASE("a pool in place counts each end that moves as a call of its upstream") {
    sim_node         node{doubles::small_pages(4096)};
    doubles::watch   seen;
    pool_in_place    mr{watched_blocks{seen}};
    held_piece const a = take_piece(mr, 2_MiB);
    held_piece const b = take_piece(mr, 2_MiB);
    CHECK(seen.extensions == 1);
    CHECK(mr.usage().upstream == 2);
    give_piece(mr, b);
    CHECK(mr.trim() == 2_MiB);
    CHECK(seen.shrinks == 1);
    CHECK(mr.usage().upstream == 3);
    give_piece(mr, a);
}

TEST_CASE("a pool in place that grew has held so much: up to that it keeps what is idle") {
    sim_node         node{doubles::small_pages(4096)};
    doubles::watch   seen;
    pool             mr{watched_blocks{seen}, {}, fixed_growth{.step = 16_MiB}};
    held_piece const a = take_piece(mr, 2_MiB);
    give_piece(mr, take_piece(mr, 16_MiB));
    give_piece(mr, take_piece(mr, 32_MiB)); // 48 are held, and never were more than 34 out
    CHECK(seen.extensions == 2);
    CHECK(mr.trim() == 46_MiB);
    seen.refuse = true;
    give_piece(mr, take_piece(mr, 3_MiB));       // a chunk of its own, of the policy's 16
    held_piece const b = take_piece(mr, 24_MiB); // another: 42, more than an eighth over 34
    CHECK(seen.blocks() == 3);
    CHECK(mr.usage().reserved == 42_MiB);
    give_piece(mr, b);
    give_piece(mr, a);
}

TEST_CASE("a pool in place: whatever call of virtual memory fails, nothing is lost") {
    using memory    = pool<sim_virtual_resource>;
    auto const make = [] {
        return memory{sim_virtual_resource{{.reserve = 1 << 26, .handle_size = small_page}},
                      {.max_size = 24 * small_page}};
    };
    auto const act = [](memory& mr) {
        laws::block const small{mr, small_page / 2};
        laws::block const large{mr, 18 * small_page};
        {
            laws::block const more{mr, small_page};
            mr.trim();
        }
        laws::block const again{mr, 2 * small_page};
        mr.trim();
    };
    auto const look = [](memory& mr, bool) {
        CHECK(mr.usage().live == 0);
        mr.deallocate_sync(mr.allocate_sync(18 * small_page), 18 * small_page);
        CHECK(mr.usage().reserved <= 24 * small_page);
    };
    doubles::walk_page_calls(make, act, look, 1, laws::stride);
    for (std::uint64_t const times : {2U, 3U, 100U}) {
        CHECK(doubles::walk_page_calls(make, act, look, times, laws::stride) != 0);
    }
}

TEST_CASE("a pool in place: whatever host memory is refused, nothing is lost") {
    bool hit = true;
    for (std::uint64_t n = 1; hit; n += laws::stride) {
        REQUIRE(n < 1000);
        sim_node       node{doubles::small_pages(4096)};
        doubles::watch seen;
        {
            pool_in_place    mr{watched_blocks{seen}};
            held_piece const a     = take_piece(mr, 2_MiB);
            held_piece const b     = take_piece(mr, 256);
            auto const       grows = [&] {
                laws::block const large{mr, 3_MiB}, small{mr, small_page};
                mr.trim();
            };
            doubles::bombing armed{n};
            try {
                grows();
            } catch (std::bad_alloc const&) {}
            hit = armed.defuse();
            CHECK(mr.usage().live == 2_MiB + 256);
            grows();
            CHECK(mr.usage().reserved == seen.bytes());
            give_piece(mr, a);
            give_piece(mr, b);
        }
        CHECK(seen.blocks() == 0);
        CHECK_FALSE(seen.broken);
        CHECK(node.figures().used == 0);
    }
}

TEST_CASE(
    "a pool in place: random operations on several streams, trimmed and refused now and then") {
    for (std::uint64_t const seed : {7U, 8U}) {
        CAPTURE(seed);
        sim_node       node{doubles::small_pages(1024)};
        doubles::watch seen;
        {
            pool_in_place mr{watched_blocks{seen}, {.max_size = 300 * small_page}};
            laws::model_heap<pool_in_place> model{mr,
                                                  {.room       = 280 * small_page,
                                                   .largest    = 2_MiB,
                                                   .operations = 0,
                                                   .streams    = 6,
                                                   .seed       = seed,
                                                   .may_refuse = true}};
            for (unsigned i = 0; i < laws::of_orders(6000); ++i) {
                model.step();
                if (i % 50 == 0) { mr.trim(i % 7 * small_page); }
                if (i % 50 == 0) { CHECK(mr.usage().reserved == seen.bytes()); }
            }
            model.clear();
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        CHECK(seen.extensions > laws::of_orders(20));
        CHECK(seen.shrinks > laws::of_orders(20));
        CHECK_FALSE(seen.broken);
        CHECK(node.figures().used == 0);
        nothing_was_reported(node);
    }
}

TEST_CASE("a pool in place: several threads grow at once, and one of them trims") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    {
        pool_in_place mr{watched_blocks{seen}};
        {
            std::vector<sim_thread> threads;
            for (unsigned i = 0; i < 3; ++i) {
                threads.emplace_back(sim_device{}, [&mr, i] {
                    laws::model_heap<pool_in_place>{mr,
                                                    {.room       = 8_MiB,
                                                     .largest    = 2_MiB,
                                                     .operations = laws::of_many(400, 150),
                                                     .streams    = 2,
                                                     .seed       = i + 1},
                                                    false}
                        .run();
                });
            }
            threads.emplace_back(sim_device{}, [&mr] {
                for (int i = 0; i < 60; ++i) {
                    mr.trim();
                    sim_work(20us);
                }
            });
        }
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(seen.blocks() == 0);
    CHECK_FALSE(seen.broken);
    nothing_was_reported(node);
}

TEST_CASE(
    "a pool in place: while a chunk grows it is not given back, nor is its end moved otherwise") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}};
    give_piece(mr, take_piece(mr, 2_MiB)); // an idle chunk
    held_piece other{};
    bool       met     = false;
    seen.during_extend = [&] {
        met = true;
        CHECK(mr.trim() == 0);
        CHECK(seen.bytes() == 2_MiB);
        other = take_piece(mr, 3_MiB); // too large for it: a chunk of its own
        CHECK(seen.blocks() == 2);
        CHECK(mr.usage().reserved == 5_MiB);
    };
    held_piece const p = take_piece(mr, 4_MiB);
    CHECK(met);
    CHECK(mr.usage().reserved == seen.bytes());
    CHECK(mr.usage().reserved == 7_MiB);
    give_piece(mr, p);
    give_piece(mr, other);
    CHECK(mr.trim() == 7_MiB);
    CHECK_FALSE(seen.broken);
}

TEST_CASE("a pool in place: another takes the end of a chunk that grows, and both have memory") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    pool_in_place  mr{watched_blocks{seen}};
    give_piece(mr, take_piece(mr, 2_MiB));
    held_piece other{};
    seen.during_extend = [&] { other = take_piece(mr, 2_MiB); };
    held_piece const p = take_piece(mr, 4_MiB);
    CHECK((p.at != nullptr && other.at != nullptr && p.at != other.at));
    CHECK(mr.usage().live == 6_MiB);
    CHECK(mr.usage().reserved == seen.bytes());
    give_piece(mr, other);
    give_piece(mr, p);
    mr.trim();
    CHECK(node.figures().used == 0);
    CHECK_FALSE(seen.broken);
}

TEST_CASE("a pool in place: what goes back at a chunk's end is nobody's meanwhile") {
    sim_node         node{doubles::small_pages(4096)};
    doubles::watch   seen;
    pool_in_place    mr{watched_blocks{seen}};
    held_piece const first = take_piece(mr, 2_MiB);
    give_piece(mr, take_piece(mr, 2_MiB));
    held_piece other{};
    bool       met     = false;
    seen.during_shrink = [&] {
        met = true;
        CHECK(mr.usage().reserved == 2_MiB);
        CHECK(mr.trim() == 0);
        other = take_piece(mr, 2_MiB); // elsewhere: that end is on its way
        CHECK(seen.blocks() == 2);
    };
    CHECK(mr.trim() == 2_MiB);
    CHECK(met);
    CHECK(mr.usage().reserved == seen.bytes());
    busy({}, other.at, other.bytes);
    sim_device::current().synchronize();
    give_piece(mr, first);
    give_piece(mr, other);
    CHECK(mr.trim() == 4_MiB);
    CHECK_FALSE(seen.broken);
    nothing_was_reported(node);
}

TEST_CASE("a pool in place: trim keeps what it was told to, also when others took some meanwhile") {
    sim_node         node{doubles::small_pages(4096)};
    sim_stream       s;
    doubles::watch   seen;
    pool_in_place    mr{watched_blocks{seen}, {.initial_size = 16 * small_page}};
    held_piece const hole  = take_piece(mr, 6 * small_page);
    held_piece const fixed = take_piece(mr, 6 * small_page);
    give_piece(mr, hole);
    void* const p = mr.allocate_sync(4 * small_page);
    REQUIRE(p < fixed.at); // in the hole: the end of the chunk is free
    busy(s, p, 4 * small_page, 5ms);
    mr.deallocate(s, p, 4 * small_page);
    std::size_t back = 0;
    held_piece  taken_meanwhile{};
    {
        sim_thread trims{sim_device{}, [&] { back = mr.trim(8 * small_page); }};
        sim_thread takes{sim_device{}, [&] {
                             sim_work(1ms);
                             taken_meanwhile = take_piece(mr, 2 * small_page);
                         }};
    }
    CHECK(mr.usage().reserved + back == 16 * small_page);
    if constexpr (sim_ordered_threads) { CHECK(back == 2 * small_page); } // before they came
    give_piece(mr, taken_meanwhile);
    give_piece(mr, fixed);
}

TEST_CASE("a pool in place moves while unshared, with its chunks, and grows on") {
    sim_node       node{doubles::small_pages(4096)};
    doubles::watch seen;
    {
        pool_in_place    a{watched_blocks{seen}};
        held_piece const p = take_piece(a, 2_MiB);
        pool_in_place    b{std::move(a)};
        held_piece const q = take_piece(b, 2_MiB);
        CHECK(seen.blocks() == 1);
        give_piece(b, p);
        give_piece(b, q);
    }
    CHECK(seen.blocks() == 0);
    CHECK_FALSE(seen.broken);
}

TEST_CASE("a pool in place: an initial size whose pages are more than the limit is refused") {
    sim_node           node{doubles::small_pages(4096)};
    doubles::watch     seen;
    pool_options const options{.initial_size = small_page + 256, .max_size = small_page + 256};
    CHECK_THROWS_AS((pool_in_place{watched_blocks{seen}, options}), out_of_memory);
    CHECK(seen.blocks() == 0);
}

TEST_CASE("a pool in place: a growth policy that throws leaves the chunk as it was, free to grow") {
    sim_node         node{doubles::small_pages(4096)};
    doubles::watch   seen;
    bool             broken = false;
    pool             mr{watched_blocks{seen}, {}, breaking_growth{&broken}};
    held_piece const p = take_piece(mr, 2_MiB);
    broken             = true;
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), std::runtime_error);
    broken             = false;
    held_piece const q = take_piece(mr, 2_MiB);
    CHECK(seen.blocks() == 1);
    give_piece(mr, p);
    give_piece(mr, q);
    CHECK(mr.trim() == 4_MiB);
}

TEST_CASE("a pool in place: two streams with six operations each, in every order") {
    laws::every_interleaving(
        [] {
            return pool{doubles::growing_resource{sim_virtual_resource{{.handle_size = 2_MiB}}},
                        {.max_size = 12_MiB}};
        },
        8_MiB);
}

TEST_CASE("a pool in place keeps what trim is told to keep, also of a chunk that is idle") {
    sim_node                   node{{.backed = false}};
    pool<sim_virtual_resource> mr;
    auto const                 p = take_piece(mr, 300_MiB);
    give_piece(mr, p);
    std::size_t const held = mr.usage().reserved;
    CHECK(mr.trim(100_MiB) == held - 100_MiB);
    CHECK(mr.usage().reserved == 100_MiB);
    CHECK(mr.trim() == 100_MiB);
    nothing_was_reported(node);
}

TEST_CASE("a pool in place counts as free only what has memory behind it") {
    sim_node                   node{{.backed = false}};
    pool<sim_virtual_resource> mr;
    auto const                 low = take_piece(mr, 100_MiB), hole = take_piece(mr, 300_MiB),
               high = take_piece(mr, 100_MiB);
    give_piece(mr, hole);
    CHECK(mr.usage().largest_free == 300_MiB);
    CHECK(mr.trim() == 300_MiB); // pages from between
    CHECK(mr.usage().reserved == 200_MiB);
    CHECK(mr.usage().largest_free == 0);
    CHECK(mr.free_memory().bytes == 0);
    give_piece(mr, low);
    CHECK(mr.free_memory().bytes == 100_MiB);
    give_piece(mr, high);
    CHECK(mr.free_memory().releasable == 200_MiB);
    nothing_was_reported(node);
}

TEST_CASE("a pool in place that everything came back to is as new: the same again lies as before") {
    struct piece {
        void*       at;
        std::size_t bytes;
        std::size_t stream;
    };
    sim_node node;
    {
        sim_stream                 streams[3];
        pool<sim_virtual_resource> mr{{.slack = std::numeric_limits<double>::infinity()}};
        auto const                 again = [&] {
            sim_random         random{7};
            std::vector<void*> all;
            std::vector<piece> out;
            auto const         give = [&](std::size_t i) {
                mr.deallocate(streams[out[i].stream], out[i].at, out[i].bytes);
                out[i] = out.back();
                out.pop_back();
            };
            for (unsigned step = 0; step < 300; ++step) {
                piece p{nullptr, (2 + random.below(9)) * 1_MiB, random.below(3)};
                p.at = mr.allocate(streams[p.stream], p.bytes);
                all.push_back(p.at);
                out.push_back(p);
                if (random.below(3) != 0) { give(random.below(out.size())); }
            }
            while (!out.empty()) { give(0); }
            for (auto& s : streams) { s.synchronize(); }
            return all;
        };
        for (int i = 0; i < 2; ++i) {
            (void)again();
        } // which grow: the second starts with one block
        auto const reserved = mr.usage().reserved;
        auto const places   = again();
        for (int i = 0; i < 3; ++i) { CHECK(again() == places); }
        CHECK(mr.usage().reserved == reserved);
    }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "a pool in place: small blocks go where no large one has room, a few before they get more") {
    sim_node   node;
    sim_stream stream;
    {
        pool<sim_virtual_resource> mr;
        void*                      wide[20];
        void*                      apart[20];
        for (int i = 0; i < 20; ++i) {
            wide[i]  = mr.allocate(stream, 2560_KiB);
            apart[i] = mr.allocate(stream, 2_MiB);
        }
        for (void* p : wide) { mr.deallocate(stream, p, 2560_KiB); }
        for (void*& p : wide) { p = mr.allocate(stream, 1792_KiB); } // 768 KiB are left of each
        auto const  held = mr.usage().reserved;
        void*       small[20];
        std::size_t with_more = 0;
        for (void*& p : small) {
            p = mr.allocate(stream, 512_KiB);
            with_more += mr.usage().reserved != held;
        }
        CHECK(with_more == 4);
        for (void* p : small) { mr.deallocate(stream, p, 512_KiB); }
        for (void* p : wide) { mr.deallocate(stream, p, 1792_KiB); }
        for (void* p : apart) { mr.deallocate(stream, p, 2_MiB); }
        stream.synchronize();
        CHECK(mr.usage().live == 0);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "a pool in place: a small block lies in a hole only where its stream may have that at once") {
    enum class asker { owner, other, host };
    for (auto const who : {asker::owner, asker::other, asker::host}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream owner, other;
        {
            pool        mr{sim_virtual_resource{}, {}, exact_growth{}};
            void* const wide  = mr.allocate(owner, 2560_KiB);
            void* const apart = mr.allocate(owner, 1536_KiB); // up to the end of a page
            busy(owner, wide, 2560_KiB, 5ms);
            mr.deallocate(owner, wide, 2560_KiB);
            CHECK(mr.allocate(owner, 1792_KiB) == wide); // and 768 KiB that are still in use
            sim_stream_view const user = who == asker::owner ? owner : other;
            void* const           p =
                who == asker::host ? mr.allocate_sync(512_KiB) : mr.allocate(user, 512_KiB);
            busy(user, p, 512_KiB);
            CHECK((p > wide && p < apart) == (who == asker::owner));
            CHECK(mr.usage().waits == 0);
            mr.deallocate(user, p, 512_KiB);
            mr.deallocate(owner, wide, 1792_KiB);
            mr.deallocate(owner, apart, 1536_KiB);
        }
        nothing_was_reported(node);
    }
}

TEST_CASE("a pool in place survives whatever call of its platform fails") {
    laws::survives_platform_faults(
        [](event_policy events) {
            return pool{doubles::growing_resource{sim_virtual_resource{}}, {.events = events}};
        },
        [](auto& mr, sim_stream_view a, sim_stream_view b) {
            laws::take_turns(mr, a, b, {3_MiB, 40_MiB, 100, 17_MiB});
        });
}

TEST_CASE("a pool in place: what a graph keeps it keeps when a later block comes back outside") {
    laws::graphs_keep(
        [] {
            return pool{doubles::growing_resource{sim_virtual_resource{}},
                        {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
        },
        2_MiB);
}
