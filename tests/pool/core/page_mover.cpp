// SPDX-License-Identifier: Apache-2.0

// Pages with two addresses. Remapped pages, and the common properties of pools of pages, are tested
// in paged_chunks.cpp.

#include <vram/pool/core/page_mover.hpp> // first: the header must stand alone

#include "../../doubles/interrupted_source.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/small_pages.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <vram/pool/exact_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::busy;
using doubles::interrupted_platform;
using doubles::small_page;

template class vram::detail::page_mover<sim_platform>;

namespace {

constexpr std::size_t wide_enough = 20 * small_page; // more than small blocks have
constexpr double      no_limit    = std::numeric_limits<double>::infinity();

using sharing_pool = pool<sim_virtual_resource>;

sharing_pool sharing_with(pool_options const& options) {
    return sharing_pool{sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}},
                        options};
}

/// A block that needs the memory of every other one of eight, and all is back again.
struct eight_and_wide {
    sharing_pool& mr;
    sim_stream&   s;
    sim_time      each  = 1ms;
    std::size_t   bytes = wide_enough;

    void run() {
        void* p[8];
        for (void*& one : p) { use(one = mr.allocate(s, bytes), bytes); }
        for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], bytes); }
        void* const wide = mr.allocate(s, 4 * bytes);
        use(wide, 4 * bytes);
        mr.deallocate(s, wide, 4 * bytes);
        for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], bytes); }
    }
    void use(void* p, std::size_t n) const {
        if (each != sim_time{}) { busy(s, p, n, each); }
    }
};

void expect_all_went_well(sim_node& node) {
    CHECK(node.figures().used == 0);
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

} // namespace

TEST_CASE("pool with slack: a repeating program stops mapping pages, unmaps none, and waits for "
          "nothing") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream     s;
        sharing_pool   mr = sharing_with({.slack = 0});
        eight_and_wide p{mr, s};
        p.run();
        p.run();
        std::uint64_t const calls    = doubles::page_calls(node);
        std::uint64_t const upstream = mr.usage().upstream;
        for (int i = 0; i < 5; ++i) { p.run(); }
        CHECK(doubles::page_calls(node) == calls);
        CHECK(node.faults().calls(sim_call_kind::unmap) == 0);
        CHECK(node.faults().calls(sim_call_kind::synchronize) == 0);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().upstream > upstream); // memory was remapped in both directions
        CHECK(mr.usage().reserved == 8 * wide_enough);
        CHECK(node.figures().used == 8 * wide_enough);
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: it uses new memory first, up to the slack") {
    struct {
        double      slack;
        std::size_t held;
    } const expected[] = {{0, 8},      {1e-9, 8}, {0.125, 9},    {0.25, 10},
                          {0.375, 11}, {9, 11},   {no_limit, 11}};
    for (auto const& [slack, held] : expected) {
        CAPTURE(slack);
        // A device of which 8 pages are too little for sharing.
        sim_node node{doubles::small_pages(8 * 32)};
        {
            sim_stream     s;
            sharing_pool   mr = sharing_with({.slack = slack});
            eight_and_wide p{mr, s};
            p.run();
            CHECK(mr.usage().reserved == held * wide_enough);
            p.run();
            p.run();
            CHECK(mr.usage().reserved == held * wide_enough);
        }
        expect_all_went_well(node);
    }
}

TEST_CASE("pool with slack: it shares no pages below 1/32 of the device or 2.25 GiB") {
    struct {
        std::size_t device, page, bytes, held;
    } const expected[] = {
        {32_GiB, 16_MiB, 80_MiB, 11 * 80_MiB},    {32_GiB, 16_MiB, 96_MiB, 1_GiB},
        {32_GiB, 16_MiB, 128_MiB, 1_GiB},         {32_GiB, 16_MiB, 160_MiB, 1280_MiB},
        {128_GiB, 64_MiB, 192_MiB, 11 * 192_MiB}, {128_GiB, 64_MiB, 256_MiB, 2304_MiB},
        {128_GiB, 64_MiB, 320_MiB, 2560_MiB}};
    for (auto const& [device, page, bytes, held] : expected) {
        CAPTURE(device);
        CAPTURE(bytes);
        sim_node node{{.capacity = device, .on_report = sim_on_report::collect}};
        {
            sim_stream     s;
            sharing_pool   mr{sim_virtual_resource{{.handle_size = page}}, {.slack = 1e-9}};
            eight_and_wide p{.mr = mr, .s = s, .each = {}, .bytes = bytes};
            p.run();
            p.run();
            CHECK(mr.usage().reserved == held);
        }
        expect_all_went_well(node);
    }
}

TEST_CASE("pool with slack: it reserves the live bytes plus the slack, for all sizes, and then "
          "maps nothing") {
    for (double const slack : {0.0, 1.0 / 16}) {
        for (unsigned const seed : {1U, 2U, 3U}) {
            CAPTURE(slack);
            CAPTURE(seed);
            sim_node node{doubles::small_pages(16384)};
            {
                sim_stream    s;
                sharing_pool  mr     = sharing_with({.slack = slack});
                std::uint64_t mapped = 0;
                for (int round = 0; round < 8; ++round) {
                    if (round == 6) { mapped = doubles::page_calls(node); }
                    std::minstd_rand                           random{seed};
                    std::vector<std::pair<void*, std::size_t>> out;
                    auto const                                 give = [&] {
                        mr.deallocate(s, out.back().first, out.back().second);
                        out.pop_back();
                    };
                    for (int step = 0; step < 600; ++step) {
                        if (out.size() > 24 || (!out.empty() && random() % 2 == 0)) {
                            std::swap(out[random() % out.size()], out.back());
                            give();
                        } else {
                            std::size_t const bytes = wide_enough + random() % (6 * wide_enough);
                            out.emplace_back(mr.allocate(s, bytes), bytes);
                        }
                    }
                    while (!out.empty()) { give(); }
                }
                memory_usage const now  = mr.usage();
                auto const         most = static_cast<double>(now.peak_live + 2 * small_page);
                CHECK(static_cast<double>(now.peak_reserved) <= (1.006 + slack) * most);
                CHECK(doubles::page_calls(node) == mapped);
            }
            expect_all_went_well(node);
        }
    }
}

TEST_CASE("pool with slack: it shares no pages on a device with ample memory") {
    sim_node node{doubles::small_pages(64 * 12 * 20)};
    {
        sim_stream   s;
        sharing_pool mr = sharing_with({.slack = 1e-9});
        eight_and_wide{mr, s}.run();
        CHECK(mr.usage().reserved == 11 * wide_enough);
    }
    expect_all_went_well(node);
}

TEST_CASE(
    "pool with slack: the slack is relative to the peak of live bytes, also after reset_peaks") {
    sim_node node{doubles::small_pages(8 * 64)};
    {
        sim_stream   s;
        sharing_pool mr = sharing_with({.slack = 0.25});
        void*        p[8];
        for (void*& one : p) { one = mr.allocate(s, wide_enough); }
        for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], wide_enough); }
        mr.reset_peaks();
        // One of them at the address of the last block.
        void* const wide = mr.allocate(s, 3 * wide_enough);
        CHECK(mr.usage().reserved == 10 * wide_enough);
        mr.deallocate(s, wide, 3 * wide_enough);
        for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], wide_enough); }
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: it shares no page with a pending use of another stream, and waits for "
          "nothing") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream   worker, other;
        sharing_pool mr   = sharing_with({.slack = 0});
        void* const  p    = mr.allocate(worker, wide_enough);
        void* const  wall = mr.allocate(worker, wide_enough);
        busy(worker, p, wide_enough, 5ms);
        mr.deallocate(worker, p, wide_enough);
        void* const wide = mr.allocate(other, 2 * wide_enough);
        CHECK(node.now() < 5ms);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().reserved == 4 * wide_enough);
        busy(other, wide, 2 * wide_enough);
        worker.synchronize();
        void* const next = mr.allocate(other, wide_enough + small_page);
        busy(other, next, wide_enough + small_page);
        CHECK(mr.usage().reserved == 4 * wide_enough + small_page); // now the memory is available
        mr.deallocate(other, next, wide_enough + small_page);
        mr.deallocate(other, wide, 2 * wide_enough);
        mr.deallocate(worker, wall, wide_enough);
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: it moves no page while its stream is captured") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream     s, other;
        sharing_pool   mr = sharing_with({.graphs = true, .slack = 0});
        eight_and_wide p{mr, s};
        p.run();
        p.run();
        CHECK(mr.usage().reserved == 8 * wide_enough);
        s.synchronize();
        void* const small = mr.allocate(other, 100); // the streams are asked, before it grows
        void*       out[8];
        for (void*& one : out) { busy(s, one = mr.allocate(s, wide_enough), wide_enough); }
        for (int const i : {1, 3, 5}) { mr.deallocate(s, out[i], wide_enough); }
        sim_graph::begin(s);
        // The shared memory is mapped at these addresses.
        void* const wide = mr.allocate(s, 3 * wide_enough);
        busy(s, wide, 3 * wide_enough);
        sim_graph graph = sim_graph::end(s);
        CHECK(mr.usage().reserved > 8 * wide_enough);
        graph.launch(other); // at the same time as unfinished work of the stream
        other.synchronize();
        mr.deallocate(other, wide, 3 * wide_enough);
        mr.deallocate(other, small, 100);
        for (int const i : {0, 2, 4, 6, 7}) { mr.deallocate(s, out[i], wide_enough); }
        mr.forget_captures();
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: it uses free pages if the device, or the limit, has no more") {
    for (bool const limited : {false, true}) {
        CAPTURE(limited);
        for (double const slack : {1e3, no_limit}) {
            CAPTURE(slack);
            sim_node node{doubles::small_pages(limited ? 4096 : 4 * 20)};
            {
                sim_stream   s;
                sharing_pool mr =
                    sharing_with({.max_size = limited ? 4 * wide_enough : pool_options{}.max_size,
                                  .slack    = slack});
                void* p[4];
                for (void*& one : p) { one = mr.allocate(s, wide_enough); }
                busy(s, p[1], wide_enough);
                for (int const i : {1, 3}) { mr.deallocate(s, p[i], wide_enough); }
                void* const wide = mr.allocate(s, 2 * wide_enough);
                busy(s, wide, 2 * wide_enough);
                CHECK(mr.usage().reserved == 4 * wide_enough);
                std::uint64_t const waits = node.faults().calls(sim_call_kind::synchronize);
                // Without sharing, free pages are unmapped, after a wait, and new ones are mapped.
                CHECK((waits == 0) == (slack != no_limit));
                mr.deallocate(s, wide, 2 * wide_enough);
                for (int const i : {0, 2}) { mr.deallocate(s, p[i], wide_enough); }
            }
            expect_all_went_well(node);
        }
    }
}

TEST_CASE("pool with slack: it trims shared pages at any address, and shares again") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream     s;
        sharing_pool   mr    = sharing_with({.slack = 0});
        void* const    stays = mr.allocate(s, wide_enough);
        eight_and_wide p{mr, s};
        for (int i = 0; i < 3; ++i) {
            p.run();
            p.run();
            CHECK(mr.usage().reserved == 9 * wide_enough);
            CHECK(mr.trim() == 8 * wide_enough);
            CHECK(mr.usage().reserved == wide_enough);
            CHECK(node.figures().used == wide_enough);
        }
        mr.deallocate(s, stays, wide_enough);
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: blocks that begin and end within pages keep the order of streams") {
    sim_node node{doubles::small_pages(4096)};
    {
        std::vector<sim_stream> streams(3);
        sharing_pool            mr = sharing_with({.slack = 0});
        for (int round = 0; round < 4; ++round) {
            std::vector<std::pair<void*, std::size_t>> out;
            for (std::size_t i = 0; i < 12; ++i) {
                std::size_t const bytes = wide_enough + i * 1000;
                out.emplace_back(mr.allocate(streams[i % 3], bytes), bytes);
                busy(streams[i % 3], out.back().first, bytes);
            }
            for (std::size_t i = 1; i < 12; i += 2) {
                mr.deallocate(streams[i % 3], out[i].first, out[i].second);
            }
            for (std::size_t i = 0; i < 3; ++i) {
                std::size_t const bytes = 2 * wide_enough - 700 - i * 3000;
                void* const       wide  = mr.allocate(streams[i], bytes);
                busy(streams[i], wide, bytes);
                mr.deallocate(streams[i], wide, bytes);
            }
            for (std::size_t i = 0; i < 12; i += 2) {
                mr.deallocate(streams[i % 3], out[i].first, out[i].second);
            }
        }
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: a program without repetition uses few addresses, and unmaps none") {
    for (double const part : {0.05, 0.25, 0.5, 0.75}) { // live part of the device
        CAPTURE(part);
        sim_node node{doubles::small_pages(2048)};
        {
            sim_stream   s;
            sharing_pool mr{sim_virtual_resource{{.handle_size = small_page}}, {.slack = 1.0 / 16}};
            auto const   most = static_cast<std::size_t>(part * 2048) * small_page;
            std::minstd_rand                           random{1};
            std::vector<std::pair<void*, std::size_t>> out;
            std::size_t                                live = 0;
            auto const                                 give = [&] {
                std::swap(out[random() % out.size()], out.back());
                mr.deallocate(s, out.back().first, out.back().second);
                live -= out.back().second;
                out.pop_back();
            };
            for (int i = 0; i < 6000; ++i) {
                std::size_t const bytes = 17 * small_page + random() % wide_enough;
                while (live + bytes > most) { give(); }
                out.emplace_back(mr.allocate(s, bytes), bytes);
                live += bytes;
            }
            CHECK(node.faults().calls(sim_call_kind::unmap) == 0);
            std::uint64_t const mapped = node.faults().calls(sim_call_kind::map);
            CHECK(mapped <= 3 * 2048);
            CHECK(mapped <= 8 * (most / small_page));
            while (!out.empty()) { give(); }
        }
        expect_all_went_well(node);
    }
}

TEST_CASE("pool with slack: unwanted pages of a block are shared while others return") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream   s;
        sharing_pool mr = sharing_with({.slack = 0});
        void*        p[4];
        for (void*& one : p) { one = mr.allocate(s, wide_enough); }
        mr.deallocate(s, p[1], wide_enough);
        void* const wide = mr.allocate(s, wide_enough + small_page);
        mr.deallocate(s, wide, wide_enough + small_page);
        mr.deallocate(s, p[0], wide_enough);
        void* const both = mr.allocate(s, 2 * wide_enough);
        CHECK(both == p[0]);
        mr.deallocate(s, both, 2 * wide_enough);
        CHECK(mr.usage().reserved == 4 * wide_enough + small_page);
        void* const large = mr.allocate(s, 2 * wide_enough + small_page);
        CHECK(mr.usage().reserved == 4 * wide_enough + small_page); // all of it was free
        mr.deallocate(s, large, 2 * wide_enough + small_page);
        for (int const i : {2, 3}) { mr.deallocate(s, p[i], wide_enough); }
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: surplus pages are left to other threads during a remap") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream s;
        pool       mr{doubles::interrupted_source{{.reserve = 1 << 30, .handle_size = small_page}},
                      {.max_size = 8 * wide_enough, .slack = 1e3}};
        void*      p[8];
        for (void*& one : p) { one = mr.allocate(s, wide_enough); }
        for (int const i : {1, 3, 5}) { mr.deallocate(s, p[i], wide_enough); }
        int                   calls = 0;
        void*                 other = nullptr;
        std::function<void()> look  = [&] {
            if (++calls == 3) { // after the addresses, and memory that was refused
                other = mr.try_allocate(s, wide_enough);
            } else {
                interrupted_platform::meanwhile = look;
            }
        };
        interrupted_platform::meanwhile = look;
        void* const wide                = mr.allocate(s, 2 * wide_enough);
        interrupted_platform::meanwhile = nullptr;
        CHECK(other != nullptr);
        CHECK(mr.usage().reserved == 8 * wide_enough);
        mr.deallocate(s, other, wide_enough);
        mr.deallocate(s, wide, 2 * wide_enough);
        for (int const i : {0, 2, 4, 6, 7}) { mr.deallocate(s, p[i], wide_enough); }
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: pages of free blocks count as free until they have moved") {
    for (bool const remap : {false, true}) {
        CAPTURE(remap);
        sim_node node{doubles::small_pages(4096)};
        {
            sim_stream s;
            pool  mr{doubles::interrupted_source{{.reserve = 1 << 30, .handle_size = small_page}},
                     {.remap = remap, .slack = remap ? 1e3 : 0}};
            void* p[4];
            for (void*& one : p) { one = mr.allocate(s, wide_enough); }
            for (int const i : {0, 2}) { mr.deallocate(s, p[i], wide_enough); }
            s.synchronize();
            std::vector<std::size_t> free;
            std::function<void()>    look = [&] {
                free.push_back(mr.free_memory().bytes);
                CHECK(mr.usage().largest_free <= wide_enough);
                interrupted_platform::meanwhile = look;
            };
            interrupted_platform::meanwhile = look;
            void* const wide                = mr.allocate(s, 2 * wide_enough);
            interrupted_platform::meanwhile = nullptr;
            REQUIRE(free.size() >= 2);
            CHECK(free[free.size() - 2] == 2 * wide_enough); // before the one moved
            CHECK(free.back() == wide_enough);               // and before the other did
            CHECK(mr.free_memory().bytes == 0);
            CHECK(mr.usage().reserved == 4 * wide_enough);
            mr.deallocate(s, wide, 2 * wide_enough);
            for (int const i : {1, 3}) { mr.deallocate(s, p[i], wide_enough); }
        }
        expect_all_went_well(node);
    }
}

TEST_CASE("pool with slack: a page that could not be moved once is no longer wanted") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream  s;
        pool        mr{doubles::interrupted_source{{.reserve = 1 << 30, .handle_size = small_page}},
                       {.remap = true}};
        auto const  take = [&](std::size_t bytes) { return mr.allocate(s, bytes); };
        auto const  give = [&](void* p, std::size_t bytes) { mr.deallocate(s, p, bytes); };
        void* const one  = take(wide_enough);
        void* const w1   = take(wide_enough);
        void* const two  = take(3 * wide_enough);
        void* const w2   = take(wide_enough);
        give(one, wide_enough);
        void* const has_one = take(wide_enough + small_page); // the memory of the first
        void* const w3      = take(2 * wide_enough);
        CHECK(take(wide_enough) == one); // these addresses cannot get their former memory again
        give(two, 3 * wide_enough);
        void* const has_two = take(4 * wide_enough);
        void* const w4      = take(4 * wide_enough);
        give(has_two, 4 * wide_enough);
        CHECK(take(2 * wide_enough) == has_two);
        give(has_one, wide_enough + small_page);
        void* other                     = nullptr;
        interrupted_platform::meanwhile = [&] { other = take(wide_enough + small_page); };
        void* const again               = take(3 * wide_enough);
        CHECK(again == two);
        CHECK(other == has_one); // it was not needed
        give(again, 3 * wide_enough);
        give(other, wide_enough + small_page);
        give(has_two, 2 * wide_enough);
        give(w3, 2 * wide_enough);
        give(w4, 4 * wide_enough);
        for (void* const p : {one, w1, w2}) { give(p, wide_enough); }
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack: no page of a chunk that another thread frees is wanted") {
    constexpr std::size_t page = 2_MiB;
    sim_node              node{{.capacity = 1_GiB, .on_report = sim_on_report::collect}};
    {
        sim_stream  s;
        pool        mr{doubles::interrupted_source{{.handle_size = page}}, {.remap = true}};
        void* const a                   = mr.allocate(s, 2 * page);
        void* const b                   = mr.allocate(s, 4 * page);
        void*       other               = nullptr;
        interrupted_platform::meanwhile = [&] { other = mr.allocate(s, 2 * page); }; // a chunk
        void* const wall                = mr.allocate(s, 2 * page);
        void* const end                 = mr.allocate(s, 5 * page);
        mr.deallocate(s, a, 2 * page);
        void* const there = mr.allocate(s, 7 * page); // has the memory of `a`, in the second chunk
        mr.deallocate(s, b, 4 * page);
        mr.deallocate(s, end, 5 * page);
        void* const here = mr.allocate(s, 9 * page); // has the memory of `b`, in the first chunk
        mr.deallocate(s, here, 9 * page);
        void* const front = mr.allocate(s, 4 * page);
        s.synchronize();
        interrupted_platform::meanwhile = [&] {
            mr.deallocate_sync(there, 7 * page);
            mr.deallocate_sync(other, 2 * page);
            mr.trim();
        };
        void* const both                = mr.allocate(s, 6 * page); // at the addresses of both
        interrupted_platform::meanwhile = nullptr;
        mr.deallocate(s, both, 6 * page);
        mr.deallocate(s, front, 4 * page);
        mr.deallocate(s, wall, 2 * page);
    }
    expect_all_went_well(node);
}

TEST_CASE("pool with slack, eager: a dead stream's use beside a block has an event") {
    doubles::mishaps const told;
    sim_node               node{doubles::small_pages(4096)};
    {
        std::optional<sim_stream> s{doubles::raw_stream()};
        sim_stream                t;
        sharing_pool              mr = sharing_with({.events = event_policy::eager, .slack = 0});
        void*                     p[4];
        for (void*& one : p) { one = mr.allocate(t, wide_enough); }
        for (int const i : {0, 2}) { mr.deallocate(*s, p[i], wide_enough); }
        std::size_t const bytes = 2 * wide_enough - small_page / 2; // ends within a page
        void* const       wide  = mr.allocate(*s, bytes);
        s->synchronize();
        mr.deallocate(t, wide, bytes);
        s.reset(); // all that it took is back
        busy(t, nullptr, 0, 5ms);
        void* const all = mr.allocate(t, bytes + 100);
        CHECK(told.count(error_kind::dead_stream) == 0);
        CHECK(node.now() < 5ms);
        mr.deallocate(t, all, bytes + 100);
        for (int const i : {1, 3}) { mr.deallocate(t, p[i], wide_enough); }
    }
    expect_all_went_well(node);
}

namespace {

/// A platform that once fails to return the id of a stream.
struct shaky_platform : doubles::interrupted_platform {
    static inline int    left = 0;
    static std::uint64_t id(stream s) {
        if (left != 0 && --left == 0) { throw std::runtime_error{"no id"}; }
        return sim_platform::id(s);
    }
};
struct shaky_pages : sim_virtual_memory {
    using platform = shaky_platform;
    using sim_virtual_memory::sim_virtual_memory;
};
struct shaky_pool : pool<virtual_source<shaky_pages>> {
    shaky_pool()
        : pool{virtual_source<shaky_pages>{shaky_pages{},
                                           {.reserve = 1 << 30, .handle_size = small_page}},
               {.events = event_policy::eager, .slack = 0}} {}
};

} // namespace

TEST_CASE("pool with slack: no page is lost if a stream cannot be identified") {
    for (int nth = 1, over = 0; over == 0; ++nth) {
        CAPTURE(nth);
        REQUIRE(nth < 60);
        sim_node node{doubles::small_pages(4096)};
        {
            sim_stream s;
            shaky_pool mr;
            void*      p[6];
            for (void*& one : p) { one = mr.allocate(s, wide_enough); }
            for (int const i : {0, 2, 4}) { mr.deallocate(s, p[i], wide_enough); }
            mr.deallocate(s, mr.allocate(s, 2 * wide_enough), 2 * wide_enough);
            for (int const i : {0, 2, 4}) { p[i] = mr.allocate(s, wide_enough); }
            for (int const i : {0, 2, 4}) { mr.deallocate(s, p[i], wide_enough); }
            void* wide           = nullptr;
            shaky_platform::left = nth;
            try {
                wide = mr.allocate(s, 3 * wide_enough);
            } catch (std::exception const&) {}
            over = std::exchange(shaky_platform::left, 0);
            CHECK(mr.usage().live + mr.free_memory().bytes == mr.usage().reserved);
            if (wide != nullptr) { mr.deallocate(s, wide, 3 * wide_enough); }
            for (int const i : {1, 3, 5}) { mr.deallocate(s, p[i], wide_enough); }
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        expect_all_went_well(node);
    }
}

TEST_CASE("pool with slack: no returning page is lost if a stream cannot be identified") {
    for (int nth = 1, over = 0; over == 0; ++nth) {
        CAPTURE(nth);
        REQUIRE(nth < 60);
        sim_node node{doubles::small_pages(4096)};
        {
            sim_stream s;
            shaky_pool mr;
            void*      wide = nullptr;
            void*      p[8];
            for (int round = 0; round < 3; ++round) {
                for (void*& one : p) { one = mr.allocate(s, wide_enough); }
                for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], wide_enough); }
                if (round == 2) { shaky_platform::left = nth; }
                try {
                    wide = mr.allocate(s, 4 * wide_enough);
                } catch (std::exception const&) { wide = nullptr; }
                over = std::exchange(shaky_platform::left, 0);
                CHECK(mr.usage().live + mr.free_memory().bytes == mr.usage().reserved);
                if (wide != nullptr) { mr.deallocate(s, wide, 4 * wide_enough); }
                for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], wide_enough); }
            }
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        expect_all_went_well(node);
    }
}
