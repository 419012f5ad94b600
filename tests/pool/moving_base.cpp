// SPDX-License-Identifier: Apache-2.0

// Pages with two addresses. Those that move, and what pools of pages have in common, are in
// paged_base.cpp.

#include <vram/pool/moving_base.hpp> // first: the header must stand alone

#include "../doubles/mishaps.hpp"
#include "../doubles/small_pages.hpp"
#include "../doubles/streams_at_work.hpp"

#include <vram/base/contract.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;
using doubles::busy;
using doubles::small_page;

template class vram::moving_base<sim_virtual_resource, exact_growth>;

namespace {

constexpr std::size_t several = 20 * small_page; // more than small blocks have
constexpr double      never   = std::numeric_limits<double>::infinity();

using page_pool = pool<sim_virtual_resource>;

page_pool pool_with(pool_options const& options) {
    return page_pool{sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}}, options};
}

/// A block that needs the memory of every other one of eight, and all is back again.
struct program {
    page_pool&  mr;
    sim_stream& s;
    sim_time    each = 1ms;

    void run() {
        void* p[8];
        for (void*& one : p) { use(one = mr.allocate(s, several), several); }
        for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
        void* const wide = mr.allocate(s, 4 * several);
        use(wide, 4 * several);
        mr.deallocate(s, wide, 4 * several);
        for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
    }
    void use(void* p, std::size_t bytes) const {
        if (each != sim_time{}) { busy(s, p, bytes, each); }
    }
};

void expect_nothing_left(sim_node& node) {
    CHECK(node.figures().used == 0);
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

} // namespace

TEST_CASE("a pool that shares pages and sees the same again maps nothing any more, unmaps nothing ever, "
          "and waits for nobody") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream s;
        page_pool  mr = pool_with({.slack = 0});
        program    p{mr, s};
        p.run();
        p.run();
        std::uint64_t const calls    = doubles::page_calls(node);
        std::uint64_t const upstream = mr.usage().upstream;
        for (int i = 0; i < 5; ++i) { p.run(); }
        CHECK(doubles::page_calls(node) == calls);
        CHECK(node.faults().calls(sim_call_kind::unmap) == 0);
        CHECK(node.faults().calls(sim_call_kind::synchronize) == 0);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().upstream > upstream); // memory went to and fro
        CHECK(mr.usage().reserved == 8 * several);
        CHECK(node.figures().used == 8 * several);
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages takes new memory first, as far as the slack allows") {
    struct {
        double      slack;
        std::size_t held;
    } const expected[] = {{0, 8}, {1e-9, 8}, {0.125, 9}, {0.25, 10}, {0.375, 11}, {9, 11}, {never, 11}};
    for (auto const& [slack, held] : expected) {
        CAPTURE(slack);
        sim_node node{doubles::small_pages(8 * 64)}; // a device of which 8 pages are not worth it
        {
            sim_stream s;
            page_pool  mr = pool_with({.slack = slack});
            program    p{mr, s};
            p.run();
            CHECK(mr.usage().reserved == held * several);
            p.run();
            p.run();
            CHECK(mr.usage().reserved == held * several);
        }
        expect_nothing_left(node);
    }
}

TEST_CASE("a pool that shares pages shares none of a device that has plenty") {
    sim_node node{doubles::small_pages(64 * 12 * 20)};
    {
        sim_stream s;
        page_pool  mr = pool_with({.slack = 1e-9});
        program{mr, s}.run();
        CHECK(mr.usage().reserved == 11 * several);
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages: the slack is of the most that was ever out, also where peaks start "
          "again") {
    sim_node node{doubles::small_pages(8 * 64)};
    {
        sim_stream s;
        page_pool  mr = pool_with({.slack = 0.25});
        void*      p[8];
        for (void*& one : p) { one = mr.allocate(s, several); }
        for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
        mr.reset_peaks();
        void* const wide = mr.allocate(s, 3 * several); // one of them where the last block was
        CHECK(mr.usage().reserved == 10 * several);
        mr.deallocate(s, wide, 3 * several);
        for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages shares none that another stream may still use, and waits for nobody") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream  worker, other;
        page_pool   mr   = pool_with({.slack = 0});
        void* const p    = mr.allocate(worker, several);
        void* const wall = mr.allocate(worker, several);
        busy(worker, p, several, 5ms);
        mr.deallocate(worker, p, several);
        void* const wide = mr.allocate(other, 2 * several);
        CHECK(node.now() < 5ms);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().reserved == 4 * several);
        busy(other, wide, 2 * several);
        worker.synchronize();
        void* const next = mr.allocate(other, several + small_page);
        busy(other, next, several + small_page);
        CHECK(mr.usage().reserved == 4 * several + small_page); // now it can be had
        mr.deallocate(other, next, several + small_page);
        mr.deallocate(other, wide, 2 * several);
        mr.deallocate(worker, wall, several);
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages brings none back while its stream is captured") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream s, other;
        page_pool  mr = pool_with({.graphs = true, .slack = 0});
        program    p{mr, s};
        p.run();
        p.run();
        CHECK(mr.usage().reserved == 8 * several);
        s.synchronize();
        void* const small = mr.allocate(other, 100); // the streams are asked, before it grows
        void* out[8];
        for (void*& one : out) { busy(s, one = mr.allocate(s, several), several); }
        for (int const i : {1, 3, 5}) { mr.deallocate(s, out[i], several); }
        sim_graph::begin(s);
        void* const wide = mr.allocate(s, 3 * several); // whose memory is where those were
        busy(s, wide, 3 * several);
        sim_graph graph = sim_graph::end(s);
        CHECK(mr.usage().reserved > 8 * several);
        graph.launch(other); // beside what the stream still does
        other.synchronize();
        mr.deallocate(other, wide, 3 * several);
        mr.deallocate(other, small, 100);
        for (int const i : {0, 2, 4, 6, 7}) { mr.deallocate(s, out[i], several); }
        mr.forget_captures();
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages finds free ones also where the device, or the limit, has no more") {
    for (bool const limited : {false, true}) {
        CAPTURE(limited);
        for (double const slack : {1e3, never}) {
            CAPTURE(slack);
            sim_node node{doubles::small_pages(limited ? 4096 : 4 * 20)};
            {
                sim_stream s;
                page_pool  mr = pool_with(
                    {.max_size = limited ? 4 * several : pool_options{}.max_size, .slack = slack});
                void* p[4];
                for (void*& one : p) { one = mr.allocate(s, several); }
                busy(s, p[1], several);
                for (int const i : {1, 3}) { mr.deallocate(s, p[i], several); }
                void* const wide = mr.allocate(s, 2 * several);
                busy(s, wide, 2 * several);
                CHECK(mr.usage().reserved == 4 * several);
                std::uint64_t const waits = node.faults().calls(sim_call_kind::synchronize);
                CHECK((waits == 0) == (slack != never)); // else pages went, and others came
                mr.deallocate(s, wide, 2 * several);
                for (int const i : {0, 2}) { mr.deallocate(s, p[i], several); }
            }
            expect_nothing_left(node);
        }
    }
}

TEST_CASE("a pool that shares pages trims them wherever they are, and shares again") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream  s;
        page_pool   mr    = pool_with({.slack = 0});
        void* const stays = mr.allocate(s, several);
        program     p{mr, s};
        for (int i = 0; i < 3; ++i) {
            p.run();
            p.run();
            CHECK(mr.usage().reserved == 9 * several);
            CHECK(mr.trim() == 8 * several);
            CHECK(mr.usage().reserved == several);
            CHECK(node.figures().used == several);
        }
        mr.deallocate(s, stays, several);
    }
    expect_nothing_left(node);
}

TEST_CASE("a pool that shares pages: blocks that begin and end within pages keep the order of streams") {
    sim_node node{doubles::small_pages(4096)};
    {
        std::vector<sim_stream> streams(3);
        page_pool               mr = pool_with({.slack = 0});
        for (int round = 0; round < 4; ++round) {
            std::vector<std::pair<void*, std::size_t>> out;
            for (std::size_t i = 0; i < 12; ++i) {
                std::size_t const bytes = several + i * 1000;
                out.emplace_back(mr.allocate(streams[i % 3], bytes), bytes);
                busy(streams[i % 3], out.back().first, bytes);
            }
            for (std::size_t i = 1; i < 12; i += 2) {
                mr.deallocate(streams[i % 3], out[i].first, out[i].second);
            }
            for (std::size_t i = 0; i < 3; ++i) {
                std::size_t const bytes = 2 * several - 700 - i * 3000;
                void* const       wide  = mr.allocate(streams[i], bytes);
                busy(streams[i], wide, bytes);
                mr.deallocate(streams[i], wide, bytes);
            }
            for (std::size_t i = 0; i < 12; i += 2) {
                mr.deallocate(streams[i % 3], out[i].first, out[i].second);
            }
        }
    }
    expect_nothing_left(node);
}
