// SPDX-License-Identifier: Apache-2.0

// A pool with addresses and memory of separate lifetimes. Other properties of pools are tested in
// pool.cpp.

#include <vram/pool/core/paged_chunks.hpp> // first: the header must stand alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/interrupted_platform.hpp"
#include "../../doubles/interrupted_source.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/page_modes.hpp"
#include "../../doubles/small_pages.hpp"
#include "../../doubles/streams_at_work.hpp"
#include "../../laws/captures_go_on.hpp"
#include "../../laws/effort.hpp"
#include "../../laws/every_interleaving.hpp"
#include "../../laws/graphs_keep.hpp"
#include "../../laws/platform_faults.hpp"
#include "../../laws/random_streams.hpp"
#include "../../laws/resource.hpp"

#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::busy;
using doubles::in_mode;
using doubles::page_mode;
using doubles::small_page;

template class vram::detail::paged_chunks<sim_virtual_resource>;

namespace {

using paged_pool = pool<sim_virtual_resource>;

paged_pool pool_of_pages(pool_options const& options = {}) {
    return paged_pool{sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}},
                      options};
}
constexpr pool_options remapping{.remap = true};
constexpr pool_options sharing{.slack = 0};
constexpr std::size_t  several = 20 * small_page; // more than small blocks have

/// Two holes between blocks that stay, each in pages of its own.
struct two_holes {
    explicit two_holes(paged_pool& mr, std::size_t each = several)
        : bytes{each}, one{nullptr}, two{nullptr} {
        laws::block const first{mr, bytes};
        one = mr.allocate_sync(bytes);
        try {
            laws::block const other{mr, bytes};
            two = mr.allocate_sync(bytes);
        } catch (...) {
            mr.deallocate_sync(one, bytes);
            throw;
        }
    }
    void give_back(paged_pool& mr) const {
        mr.deallocate_sync(one, bytes);
        mr.deallocate_sync(two, bytes);
    }
    std::size_t bytes;
    void*       one;
    void*       two;
};

void expect_no_report(sim_node& node) {
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

/// Virtual memory of which a block can be kept from growing, or something else can be done while it
/// grows.
struct narrow_resource : sim_virtual_resource {
    explicit narrow_resource(bool const& is_full)
        : sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}}, full{&is_full} {}
    [[nodiscard]] bool widen(void* p, std::size_t bytes, std::size_t more) noexcept {
        if (meanwhile) { std::exchange(meanwhile, nullptr)(); }
        return !*full && sim_virtual_resource::widen(p, bytes, more);
    }
    bool const*           full;
    std::function<void()> meanwhile;
};

} // namespace

TEST_CASE("pool of pages: it keeps the laws of a resource") {
    for (pool_options const options :
         {in_mode(page_mode::apart), sharing, remapping,
          in_mode(page_mode::shared, {.events = event_policy::eager}),
          in_mode(page_mode::shared, {.initial_size = 8 * small_page, .graphs = true}),
          pool_options{.events = event_policy::eager, .remap = true},
          pool_options{.initial_size = 8 * small_page, .remap = true},
          pool_options{.graphs = true, .remap = true}}) {
        sim_node node{doubles::small_pages(4096)};
        laws::source([&] { return pool_of_pages(options); },
                     {.room = 60 * small_page, .largest = 30 * small_page, .operations = 800});
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: it passes random operations on sixteen streams, with and without remap") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        laws::random_streams(
            {1, 2}, {.room = 256_MiB, .largest = 24_MiB, .operations = 500, .touch = false}, [&] {
                return paged_pool{sim_virtual_resource{{.handle_size = 2_MiB}}, in_mode(mode)};
            });
    }
}

TEST_CASE("pool of pages: free pages are remapped for a request that no free range could meet") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        sim_node node{doubles::small_pages(4096)};
        {
            paged_pool        mr = pool_of_pages(in_mode(mode));
            two_holes const   holes{mr};
            std::size_t const before = mr.usage().reserved;
            REQUIRE(before == 4 * several);
            sim_stream  s;
            void* const wide = mr.allocate(s, 2 * several);
            busy(s, wide, 2 * several);
            CHECK(mr.usage().reserved ==
                  (mode != page_mode::apart ? before : before + 2 * several));
            CHECK(node.figures().used == mr.usage().reserved);
            mr.deallocate(s, wide, 2 * several);
            holes.give_back(mr);
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: it hands out backed memory, for all sizes of page and alignment") {
    sim_node node{{.capacity = 1_GiB, .page = 256_KiB, .on_report = sim_on_report::collect}};
    for (doubles::page_mode const mode : doubles::page_modes) {
        for (std::size_t const granules : {1, 2, 3, 5, 10}) {
            sim_stream   s;
            paged_pool   mr{sim_virtual_resource{
                                {.reserve = std::size_t{4} << 30, .handle_size = granules * 256_KiB}},
                          in_mode(mode)};
            std::mt19937 random{7};
            struct {
                void*       at        = nullptr;
                std::size_t bytes     = 0;
                std::size_t alignment = 0;
            } out[24];
            for (int i = 0; i < 200; ++i) {
                auto& b = out[random() % 24];
                mr.deallocate(s, b.at, b.bytes, b.alignment);
                b    = {nullptr, (1 + random() % 24) * 128_KiB, 256_KiB << random() % 6};
                b.at = mr.allocate(s, b.bytes, b.alignment);
                CHECK(mr.upstream().mapped(b.at, b.bytes) == b.bytes);
                for (std::size_t const each : {std::size_t{0}, b.bytes / 2, b.bytes - 1}) {
                    sim_fill(s, static_cast<std::byte*>(b.at) + each, std::byte{1}, 1);
                }
                if (random() % 16 == 0) { mr.trim(); }
                CHECK(mr.usage().reserved == mr.upstream().usage().live);
            }
            for (auto const& b : out) { mr.deallocate(s, b.at, b.bytes, b.alignment); }
            s.synchronize();
        }
    }
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("pool of pages: it grows as its policy says, or by the need if memory is short") {
    sim_node           node{{.capacity = 200_MiB}};
    pool               mr{sim_virtual_resource{{.reserve = 1_GiB, .handle_size = 2_MiB}},
                          {},
            fixed_growth{.step = 64_MiB}};
    std::vector<void*> out;
    for (std::size_t const expected : {64, 64, 64, 128, 128, 128, 192, 192, 192, 200}) {
        out.push_back(mr.allocate_sync(20_MiB)); // the last: 8 MiB more are needed, and there
        CHECK(mr.usage().reserved == expected * 1_MiB);
        CHECK(mr.upstream().usage().reserved == expected * 1_MiB);
    }
    CHECK(mr.try_allocate_sync(2_MiB) == nullptr);
    for (void* const p : out) { mr.deallocate_sync(p, 20_MiB); }

    pool moving{sim_virtual_resource{{.reserve = 1_GiB, .handle_size = 2_MiB}},
                {.remap = true},
                fixed_growth{.step = 64_MiB}};
    (void)mr.trim();
    void* const first  = moving.allocate_sync(20_MiB);
    void* const second = moving.allocate_sync(60_MiB);
    CHECK(moving.usage().reserved == 80_MiB); // with remap, no memory is reserved in advance
    moving.deallocate_sync(first, 20_MiB);
    moving.deallocate_sync(second, 60_MiB);
}

TEST_CASE("pool of pages: at its limit it remaps pages instead of refusing") {
    sim_node node{doubles::small_pages(4096)};
    {
        paged_pool      mr = pool_of_pages({.max_size = 4 * several, .remap = true});
        two_holes const holes{mr};
        void* const     wide = mr.allocate_sync(2 * several);
        CHECK(mr.usage().reserved == 4 * several);
        CHECK(mr.try_allocate_sync(several) == nullptr);
        mr.deallocate_sync(wide, 2 * several);
        holes.give_back(mr);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: it moves no page with a pending use") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream  worker, other;
        paged_pool  mr   = pool_of_pages(remapping);
        void* const p    = mr.allocate(worker, several);
        void* const wall = mr.allocate(worker, several);
        busy(worker, p, several);
        mr.deallocate(worker, p, several);
        void* const wide = mr.allocate(other, 2 * several); // the host waited for the worker
        busy(other, wide, 2 * several);
        CHECK(mr.usage().reserved == 3 * several);
        mr.deallocate(other, wide, 2 * several);
        mr.deallocate(worker, wall, several);
    }
    expect_no_report(node);
}

namespace {

/// Equal blocks that begin and end within pages are allocated and freed repeatedly, on streams that
/// are busy when a block is freed.
void same_again(paged_pool& mr, std::vector<sim_stream> const& streams, unsigned seed) {
    struct out {
        void*       p;
        std::size_t bytes;
        std::size_t stream;
    };
    std::minstd_rand random{seed};
    std::vector<out> live;
    for (int step = 0; step < 300; ++step) {
        if (live.size() == 12 || (!live.empty() && random() % 2 == 0)) {
            std::swap(live[random() % live.size()], live.back());
            mr.deallocate(streams[live.back().stream], live.back().p, live.back().bytes);
            live.pop_back();
        } else {
            std::size_t const at    = random() % streams.size();
            std::size_t const bytes = several + random() % (12 * small_page);
            live.push_back({mr.allocate(streams[at], bytes), bytes, at});
            busy(streams[at], live.back().p, bytes);
        }
    }
    for (out const& o : live) { mr.deallocate(streams[o.stream], o.p, o.bytes); }
}

} // namespace

TEST_CASE("pool of pages: a repeating program stops mapping pages, and waits for nothing") {
    sim_node node{doubles::small_pages(4096)};
    for (bool const some_stays : {false, true}) {
        CAPTURE(some_stays);
        sim_stream        s;
        paged_pool        mr    = pool_of_pages(remapping);
        std::size_t const stays = some_stays ? several : 0;
        void* const       kept  = mr.allocate(s, stays);
        auto const        step  = [&] { // a block from the pages of every other one
            void* p[8];
            for (void*& each : p) { busy(s, each = mr.allocate(s, several), several); }
            for (int i = 1; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
            void* const wide = mr.allocate(s, 4 * several);
            busy(s, wide, 4 * several);
            mr.deallocate(s, wide, 4 * several);
            for (int i = 0; i < 8; i += 2) { mr.deallocate(s, p[i], several); }
        };
        step();
        step();
        std::uint64_t const mapped   = doubles::page_calls(node);
        std::uint64_t const waits    = node.faults().calls(sim_call_kind::synchronize);
        std::uint64_t const upstream = mr.usage().upstream;
        for (int i = 0; i < 5; ++i) { step(); }
        CHECK(doubles::page_calls(node) == mapped);
        CHECK(node.faults().calls(sim_call_kind::synchronize) == waits);
        CHECK(mr.usage().upstream > upstream); // memory was remapped in both directions
        CHECK(mr.usage().reserved == 8 * several + stays);
        mr.deallocate(s, kept, stays);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: a request does not wait for the work of its own stream") {
    sim_node node{doubles::small_pages(4096)};
    {
        paged_pool        mr = pool_of_pages(remapping);
        two_holes const   holes{mr};
        std::size_t const bytes = 2 * several - 1024; // a free block has the rest of the last page
        sim_stream        s;
        busy(s, nullptr, 0, 5ms);
        void* const p = mr.allocate(s, bytes);
        // Pages without former memory got that of others.
        CHECK(mr.usage().reserved == 4 * several);
        CHECK(node.now() < 5ms); // none of them with a pending use
        busy(s, p, bytes);
        mr.deallocate(s, p, bytes);
        holes.give_back(mr);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: it waits for no stream if no free block could own a page") {
    sim_node node{doubles::small_pages(4096)};
    {
        paged_pool         mr    = pool_of_pages(remapping);
        std::size_t const  bytes = small_page / 2;
        sim_stream         s, other;
        std::vector<void*> blocks;
        for (int i = 0; i < 64; ++i) { blocks.push_back(mr.allocate(s, bytes)); }
        for (std::size_t i = 0; i < blocks.size(); i += 2) {
            busy(s, blocks[i], bytes, 5ms);
            mr.deallocate(s, blocks[i], bytes);
        }
        void* const p = mr.allocate(other, 2 * bytes);
        CHECK(node.now() < 5ms);
        CHECK(mr.usage().waits == 0);
        mr.deallocate(other, p, 2 * bytes);
        for (std::size_t i = 1; i < blocks.size(); i += 2) { mr.deallocate(s, blocks[i], bytes); }
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: pages in pieces of many streams are moved") {
    for (std::size_t const streams : {1, 4, 16}) {
        CAPTURE(streams);
        sim_node node{doubles::small_pages(4096)};
        {
            paged_pool              mr    = pool_of_pages(remapping);
            std::size_t const       bytes = small_page / 16;
            std::vector<sim_stream> s(streams);
            sim_stream              other;
            std::vector<void*>      blocks;
            for (int i = 0; i < 1024; ++i) { blocks.push_back(mr.allocate(s[0], bytes)); }
            s[0].synchronize(); // now each stream may use the blocks
            std::size_t const held = mr.usage().reserved;
            for (std::size_t i = 0; i < blocks.size(); ++i) {
                if (i % 64 == 63) { continue; } // so that no 8 pages lie side by side
                busy(s[i % streams], blocks[i], bytes, 1ms);
                mr.deallocate(s[i % streams], blocks[i], bytes);
            }
            void* const p = mr.allocate(other, 8 * small_page);
            CHECK(mr.usage().reserved == held);
            mr.deallocate(other, p, 8 * small_page);
            for (std::size_t i = 63; i < blocks.size(); i += 64) {
                mr.deallocate(s[0], blocks[i], bytes);
            }
        }
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: pages move between busy streams, and no accesses overlap") {
    for (unsigned const seed : {1U, 2U, 3U}) {
        CAPTURE(seed);
        sim_node node{doubles::small_pages(4096)};
        {
            paged_pool              mr = pool_of_pages(remapping);
            std::vector<sim_stream> streams(3);
            for (int round = 0; round < 4; ++round) { same_again(mr, streams, seed); }
            mr.trim();
        }
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: it returns every page without a live byte, and allocates it again") {
    sim_node node{doubles::small_pages(4096)};
    {
        paged_pool      mr = pool_of_pages();
        two_holes const holes{mr};
        CHECK(mr.trim(several + several / 2) == several / 2); // to the page
        CHECK(mr.usage().reserved == 3 * several + several / 2);
        CHECK(mr.trim() == several + several / 2);
        CHECK(mr.usage().reserved == 2 * several);
        CHECK(node.figures().used == 2 * several);
        sim_stream  s;
        void* const again = mr.allocate(s, several);
        busy(s, again, several);
        CHECK(mr.usage().reserved == 3 * several); // at the previous address: no new addresses
        mr.deallocate(s, again, several);
        holes.give_back(mr);
        CHECK(mr.trim() == 3 * several);
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: no operation breaks a capture") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        laws::captures_go_on([&](event_policy events, bool graphs) {
            return pool{sim_virtual_resource{{.reserve = 1_GiB, .handle_size = 2_MiB}},
                        in_mode(mode, {.max_size = 8_MiB, .events = events, .graphs = graphs})};
        });
    }
}

TEST_CASE("pool of pages: graph-retained memory stays so if a later block is freed outside") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        laws::graphs_keep(
            [&] {
                return paged_pool{
                    sim_virtual_resource{},
                    in_mode(mode, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true})};
            },
            2_MiB);
    }
}

TEST_CASE("pool of pages: for a captured stream it moves no page, and uses new ones") {
    sim_node node{doubles::small_pages(4096)};
    {
        paged_pool        mr = pool_of_pages({.graphs = true, .remap = true});
        two_holes const   holes{mr};
        std::size_t const before = mr.usage().reserved;
        sim_stream        s;
        sim_graph::begin(s);
        void* const wide = mr.allocate(s, 2 * several);
        CHECK(mr.usage().reserved == before + 2 * several);
        mr.deallocate(s, wide, 2 * several);
        sim_graph const graph = sim_graph::end(s);
        mr.forget_captures();
        holes.give_back(mr);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: free pages of every chunk can be reused, for any request") {
    sim_node node{doubles::small_pages(4096)};
    for (doubles::page_mode const mode : doubles::page_modes) {
        bool  full = false;
        pool  mr{narrow_resource{full}, in_mode(mode, {.max_size = 4 * several})};
        void* p[4];
        for (int i = 0; i < 4; ++i) {
            full = i == 2; // a second chunk
            p[i] = mr.allocate_sync(several);
        }
        full = false;
        mr.deallocate_sync(p[0], several);
        mr.deallocate_sync(p[2], several);
        if (mode != page_mode::apart) {
            void* const wide = mr.allocate_sync(2 * several);
            CHECK(mr.usage().reserved == 4 * several);
            mr.deallocate_sync(wide, 2 * several);
        }
        CHECK(mr.trim() == 2 * several);
        CHECK(mr.usage().reserved == 2 * several);
        mr.deallocate_sync(p[1], several);
        mr.deallocate_sync(p[3], several);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: after a partly failed unmap the unmapped pages are known") {
    doubles::mishaps const told;
    sim_node               node{doubles::small_pages(4096)};
    {
        paged_pool  mr   = pool_of_pages();
        void* const p    = mr.allocate_sync(3 * several);
        void* const wall = mr.allocate_sync(several);
        mr.deallocate_sync(p, 3 * several);
        int calls = 0;
        node.faults().when([&](sim_call_info const& i) {
            return i.kind == sim_call_kind::unmap && ++calls <= 20;
        });
        mr.trim();
        node.faults().clear();
        sim_stream  s;
        void* const q = mr.allocate(s, 2 * several);
        void* const r = mr.allocate(s, several);
        busy(s, q, 2 * several);
        busy(s, r, several);
        mr.deallocate(s, q, 2 * several);
        mr.deallocate(s, r, several);
        mr.deallocate_sync(wall, several);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: the unbacked bytes of a block are known after a failed host wait") {
    for (bool const captured : {false, true}) {
        CAPTURE(captured);
        doubles::mishaps const told;
        sim_node               node{doubles::small_pages(4096)};
        {
            paged_pool  mr = pool_of_pages({.max_size = 3 * several});
            sim_stream  s, t;
            void* const p    = mr.allocate_sync(several);
            void* const q    = mr.allocate_sync(several);
            void* const wall = mr.allocate_sync(several);
            mr.deallocate_sync(p, several);
            mr.trim();
            busy(s, q, several, 5ms);
            mr.deallocate(s, q, several);
            bool waited = false;
            node.faults().when([&](sim_call_info const& i) {
                return i.kind == sim_call_kind::synchronize && !std::exchange(waited, true);
            });
            if (captured) { sim_graph::begin(s, sim_capture_mode::relaxed); }
            CHECK_THROWS((void)mr.allocate_sync(2 * several));
            if (captured) { sim_graph const none = sim_graph::end(s); }
            node.faults().clear();
            CHECK(waited != captured);
            memory_usage const now = mr.usage();
            CHECK(now.live + mr.free_memory().bytes == now.reserved);
            CHECK(now.reserved == 2 * several);
            mr.forget_captures();
            void* const both = mr.allocate(t, 2 * several);
            busy(t, both, 2 * several);
            mr.deallocate(t, both, 2 * several);
            mr.deallocate_sync(wall, several);
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: the rest of a block is kept if its stream cannot be waited for") {
    constexpr std::size_t part = several + small_page / 2; // ends in the middle of a page
    for (bool const remap : {false, true}) {
        CAPTURE(remap);
        std::size_t lost = 0;
        bool        hit  = true;
        for (std::uint64_t n = 1; hit; ++n) { // fails the n-th host allocation
            CAPTURE(n);
            doubles::mishaps const told;
            sim_node               node{doubles::small_pages(4096)};
            pool mr{doubles::interrupted_source{{.reserve = 1 << 30, .handle_size = small_page}},
                    {.remap = remap}};
            sim_stream                      s, t;
            std::optional<doubles::bombing> armed;
            void* const                     p    = mr.allocate(s, part);
            void* const                     q    = mr.allocate(t, part);
            void* const                     more = mr.allocate(t, several);
            void* const                     wall = mr.allocate(t, several);
            mr.deallocate(s, p, part);
            s.synchronize();
            mr.trim(several / 2);
            std::size_t const there = mr.free_memory().bytes;
            CHECK(there % small_page != 0);
            busy(t, more, several, 5ms);
            // The request waits for the kernel, to use its pages.
            if (remap) { mr.deallocate(t, more, several); }
            std::size_t const live = mr.usage().live;
            // Before the missing memory is allocated.
            doubles::interrupted_platform::meanwhile = [&] {
                mr.retire(s); // so that the stream must be recorded again
                node.faults().when([](sim_call_info const&) { return true; });
                armed.emplace(n);
            };
            void* again = nullptr;
            try {
                again = mr.allocate(s, part);
            } catch (std::exception const&) {}
            REQUIRE(armed.has_value());
            hit = armed->defuse();
            armed.reset();
            node.faults().clear();
            memory_usage const now = mr.usage();
            if (told.count(error_kind::leak) != 0) {
                ++lost;
                CHECK(now.live == live + there);
                CHECK(again == nullptr);
            }
            CHECK(now.live + mr.free_memory().bytes == now.reserved);
            if (again != nullptr) { mr.deallocate(s, again, part); }
            if (!remap) { mr.deallocate(t, more, several); }
            mr.deallocate(t, q, part);
            mr.deallocate(t, wall, several);
        }
        CHECK(lost != 0);
    }
}

TEST_CASE("pool of pages: its usage is correct after a move that fails half way") {
    doubles::mishaps const told;
    sim_node               node{doubles::small_pages(4096)};
    {
        paged_pool      mr = pool_of_pages(remapping);
        two_holes const holes{mr};
        int             calls = 0;
        node.faults().when(
            [&](sim_call_info const& i) { return i.kind == sim_call_kind::map && ++calls <= 2; });
        void* const wide = mr.allocate_sync(several + several / 2);
        node.faults().clear();
        std::size_t real = 0;
        mr.upstream().for_each_mapped([&](void*, std::size_t n) { real += n; });
        CHECK(mr.usage().reserved == real);
        mr.deallocate_sync(wide, several + several / 2);
        holes.give_back(mr);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(node.figures().used == 0);
}

TEST_CASE("pool of pages: it hands out backed memory if a move fails, at any page") {
    for (int const times : {1, 2, 3}) {
        CAPTURE(times);
        int nth   = 0;
        int calls = 0;
        do {
            ++nth;
            CAPTURE(nth);
            doubles::mishaps const told;
            sim_node               node{doubles::small_pages(4096)};
            {
                paged_pool      mr = pool_of_pages(remapping);
                two_holes const holes{mr};
                calls = 0;
                node.faults().when([&](sim_call_info const& i) {
                    return doubles::about_pages(i.kind, false) && ++calls >= nth &&
                           calls < nth + times;
                });
                std::vector<std::pair<void*, std::size_t>> out;
                for (std::size_t const bytes : {several + several / 2, several, several}) {
                    void* const p = mr.try_allocate_sync(bytes);
                    out.emplace_back(p, bytes);
                    CHECK((p == nullptr || mr.upstream().mapped(p, bytes) == bytes));
                    CHECK(mr.usage().reserved == mr.upstream().usage().live);
                }
                node.faults().clear();
                for (auto const& [p, bytes] : out) { mr.deallocate_sync(p, bytes); }
                holes.give_back(mr);
                mr.trim();
                CHECK(mr.usage().reserved == 0);
            }
            CHECK(node.figures().used == 0);
            expect_no_report(node);
        } while (calls >= nth);
        CHECK(nth > 30); // pages were moved, and more were made
    }
}

TEST_CASE("pool of pages: a captured stream does not wait, with any options") {
    sim_node node{doubles::small_pages(4096)};
    {
        sim_stream  s, other;
        paged_pool  mr   = pool_of_pages();
        void* const p    = mr.allocate_sync(4 * several);
        void* const wall = mr.allocate_sync(several);
        mr.deallocate_sync(p, 4 * several);
        mr.trim();
        void* const q = mr.allocate(other, 2 * several);
        busy(other, q, 2 * several);
        mr.deallocate(other, q, 2 * several);
        sim_graph::begin(s);
        void* const     r     = mr.allocate(s, 3 * several);
        sim_graph const graph = sim_graph::end(s);
        CHECK(mr.usage().waits == 0);
        mr.deallocate_sync(r, 3 * several);
        mr.deallocate_sync(wall, several);
    }
    CHECK(node.figures().used == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: a refused request counts neither as live nor as an allocation") {
    sim_node    node{doubles::small_pages(4096)};
    paged_pool  mr = pool_of_pages({.max_size = 2 * several});
    void* const p  = mr.allocate_sync(several);
    CHECK_THROWS_AS((void)mr.allocate_sync(3 * several), out_of_memory);
    CHECK(mr.usage().peak_live == several);
    CHECK(mr.usage().allocations == 1);
    mr.deallocate_sync(p, several);
}

TEST_CASE("pool of pages: after any failed call of virtual memory nothing is lost") {
    constexpr std::size_t few = 4 * small_page;
    auto const            act = [](paged_pool& mr) {
        two_holes const holes{mr, few};
        try {
            laws::block const wide{mr, 2 * few};
            laws::block const large{mr, 11 * small_page};
            mr.trim();
            laws::block const again{mr, few};
        } catch (...) {
            holes.give_back(mr);
            throw;
        }
        mr.trim();
        holes.give_back(mr);
    };
    auto const look = [](paged_pool& mr, bool) {
        CHECK(mr.usage().live == 0);
        mr.deallocate_sync(mr.allocate_sync(12 * small_page), 12 * small_page);
    };
    for (doubles::page_mode const mode : doubles::page_modes) {
        auto const make = [&] {
            return paged_pool{sim_virtual_resource{{.reserve = 1 << 26, .handle_size = small_page}},
                              in_mode(mode, {.max_size = 40 * small_page})};
        };
        for (std::uint64_t const times : {1U, 2U, 3U, 100U}) {
            doubles::walk_page_calls(make, act, look, times, laws::stride);
        }
    }
}

TEST_CASE("pool of pages: after any failed host allocation nothing is lost") {
    for (page_mode const mode : {page_mode::shared, page_mode::moved}) {
        bool hit = true;
        for (std::uint64_t n = 1; hit; n += laws::stride) {
            REQUIRE(n < 1000);
            sim_node node{doubles::small_pages(4096)};
            {
                paged_pool      mr = pool_of_pages(in_mode(mode));
                two_holes const holes{mr};
                auto const      moves = [&] {
                    laws::block const wide{mr, 2 * several}, small{mr, 100};
                    mr.trim();
                };
                doubles::bombing armed{n};
                try {
                    moves();
                } catch (std::bad_alloc const&) {}
                hit = armed.defuse();
                CHECK(mr.usage().live == 2 * several);
                moves();
                holes.give_back(mr);
                mr.trim();
                CHECK(mr.usage().reserved == 0);
            }
            CHECK(node.figures().used == 0);
            expect_no_report(node);
        }
    }
}

TEST_CASE("pool of pages: it survives any failed platform call") {
    for (page_mode const mode : {page_mode::shared, page_mode::moved}) {
        laws::survives_platform_faults(
            [&](event_policy events) {
                return paged_pool{sim_virtual_resource{}, in_mode(mode, {.events = events})};
            },
            [](paged_pool& mr, sim_stream_view a, sim_stream_view b) {
                laws::take_turns(mr, a, b, {3_MiB, 40_MiB, 100, 17_MiB});
            });
    }
}

TEST_CASE("pool of pages: several threads move pages concurrently, and one of them trims") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        sim_node node{doubles::small_pages(4096)};
        {
            paged_pool mr = pool_of_pages(in_mode(mode));
            {
                std::vector<sim_thread> threads;
                for (unsigned i = 0; i < 3; ++i) {
                    threads.emplace_back(sim_device{}, [&mr, i] {
                        laws::model_heap<paged_pool>{mr,
                                                     {.room       = 12_MiB,
                                                      .largest    = 4_MiB,
                                                      .operations = laws::of_many(300, 120),
                                                      .streams    = 2,
                                                      .seed       = i + 1},
                                                     false}
                            .run();
                    });
                }
                threads.emplace_back(sim_device{}, [&mr] {
                    for (int i = 0; i < 40; ++i) {
                        mr.trim();
                        sim_work(20us);
                    }
                });
            }
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: it is correct for two streams with six operations each, in every order") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        laws::every_interleaving(
            [=] {
                return paged_pool{sim_virtual_resource{{.handle_size = 2_MiB}},
                                  in_mode(mode, {.max_size = 12_MiB})};
            },
            8_MiB);
    }
}

TEST_CASE("pool of pages: backed bytes count as free, and addresses do not") {
    sim_node        node{doubles::small_pages(4096)};
    paged_pool      mr = pool_of_pages();
    two_holes const holes{mr};
    for (std::size_t const keep : {several + several / 2, several / 2, std::size_t{0}}) {
        mr.trim(keep);
        memory_usage const now = mr.usage();
        CHECK(now.reserved - now.live == keep);
        CHECK(mr.free_memory().bytes == keep);
        CHECK(now.largest_free == (keep > several ? several : keep));
    }
    holes.give_back(mr);
}

TEST_CASE("pool of pages: the free rest of shared pages counts as free") {
    sim_node         node{doubles::small_pages(4096)};
    paged_pool       mr   = pool_of_pages();
    constexpr auto   part = several - small_page / 2; // ends in the middle of a page
    sim_stream const s;
    void* const      p[] = {mr.allocate(s, part), mr.allocate(s, several), mr.allocate(s, part)};
    mr.deallocate(s, p[1], several);
    s.synchronize();
    std::size_t const held = mr.usage().reserved;
    CHECK(mr.trim() == several - small_page); // the bytes that it owned
    memory_usage const now = mr.usage();
    CHECK(now.reserved == held - (several - small_page));
    CHECK(now.live + mr.free_memory().bytes == now.reserved);
    CHECK(now.largest_free == small_page);
    CHECK(mr.free_memory().count == 1); // its two edges
    for (int const i : {0, 2}) { mr.deallocate(s, p[i], part); }
}

TEST_CASE("pool of pages: memory that the host waits for counts once it is available") {
    sim_node     node;
    sim_stream   s;
    paged_pool   mr    = pool_of_pages();
    void* const  first = mr.allocate_sync(several);
    void*        same  = nullptr;
    void*        other = nullptr;
    memory_usage meanwhile;
    sim_launch(s, {.name = "kernel", .writes = {{first, several}}, .duration = 5ms});
    mr.deallocate(s, first, several);
    {
        sim_thread waits{sim_device{}, [&] { same = mr.allocate_sync(several); }};
        sim_thread grows{sim_device{}, [&] {
                             sim_work(1ms);
                             other     = mr.allocate_sync(several);
                             meanwhile = mr.usage();
                         }};
    }
    CHECK(meanwhile.requested <= meanwhile.live);
    CHECK((meanwhile.live == several || !sim_ordered_threads));
    CHECK(mr.usage().live == 2 * several);
    CHECK(mr.usage().requested == 2 * several);
    CHECK(mr.usage().peak_live == 2 * several);
    mr.deallocate_sync(same, several);
    mr.deallocate_sync(other, several);
}

TEST_CASE("pool of pages: while a chunk grows, a block of another chunk may be freed") {
    sim_node node{{.on_report = sim_on_report::collect}};
    for (std::size_t const which : {0, 1}) {
        bool             full = false;
        pool             mr{narrow_resource{full}, {}, fixed_growth{.step = 3 * several}};
        doubles::mishaps told;
        void*            each[2];
        each[0]                 = mr.allocate_sync(3 * several);
        full                    = true;
        each[1]                 = mr.allocate_sync(3 * several); // a chunk of its own
        full                    = false;
        mr.upstream().meanwhile = [&] { mr.deallocate_sync(each[which], 3 * several); };
        void* const p           = mr.allocate_sync(3 * several);
        CHECK(p == each[which]);
        CHECK(mr.upstream().mapped(p, 3 * several) == 3 * several);
        CHECK(mr.usage().reserved == mr.upstream().usage().live);
        mr.deallocate_sync(p, 3 * several);
        mr.deallocate_sync(each[1 - which], 3 * several);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
        CHECK(told.count() == 0);
    }
    expect_no_report(node);
}

TEST_CASE("pool of pages: while a chunk grows, a block before a hole may be freed") {
    sim_node         node{doubles::small_pages(4096)};
    bool const       full = false;
    pool             mr{narrow_resource{full}, {}, fixed_growth{.step = several}};
    doubles::mishaps told;
    void* const      first  = mr.allocate_sync(3 * several);
    void* const      wall   = mr.allocate_sync(several);
    void* const      hole   = mr.allocate_sync(2 * several);
    void* const      behind = mr.allocate_sync(several);
    mr.deallocate_sync(hole, 2 * several);
    mr.trim();
    CHECK(mr.upstream().mapped(hole, 2 * several) == 0);
    mr.upstream().meanwhile = [&] { mr.deallocate_sync(first, 3 * several); };
    void* const p           = mr.allocate_sync(5 * several / 2);
    CHECK(p == first);
    CHECK(mr.upstream().mapped(hole, 2 * several) == 0); // it was not needed
    CHECK(mr.usage().reserved == mr.upstream().usage().live);
    mr.deallocate_sync(p, 5 * several / 2);
    mr.deallocate_sync(wall, several);
    mr.deallocate_sync(behind, several);
    mr.trim();
    CHECK(mr.usage().reserved == 0);
    CHECK(told.count() == 0);
    expect_no_report(node);
}

TEST_CASE("pool of pages: if another thread remaps after a growth, a new chunk is allocated") {
    using doubles::interrupted_platform;
    sim_node    node{{.threads = sim_order::freely}};
    pool        mr{doubles::interrupted_source{{.handle_size = 2_MiB}}};
    void* const hole = mr.allocate_sync(8_MiB);
    void* const last = mr.allocate_sync(2_MiB);
    mr.deallocate_sync(hole, 8_MiB);
    CHECK(mr.trim() == 8_MiB);
    std::latch moving{1}, filling{1}, over{1};
    void*      behind = nullptr;
    void*      again  = nullptr;
    {
        sim_thread moves{sim_device{}, [&] {
                             interrupted_platform::meanwhile = [&] {
                                 moving.count_down();
                                 filling.wait();
                             };
                             behind = mr.allocate_sync(16_MiB);
                             over.count_down();
                         }};
        sim_thread fills{sim_device{}, [&] {
                             moving.wait();
                             interrupted_platform::meanwhile = [&] {
                                 filling.count_down();
                                 over.wait();
                             };
                             again = mr.allocate_sync(4_MiB);
                         }};
    }
    CHECK(again == hole);
    CHECK(behind != static_cast<std::byte*>(last) + 2_MiB);
    CHECK(mr.usage().reserved == 2_MiB + 4_MiB + 16_MiB);
    mr.deallocate_sync(last, 2_MiB);
    mr.deallocate_sync(again, 4_MiB);
    mr.deallocate_sync(behind, 16_MiB);
    CHECK(mr.trim() == 2_MiB + 4_MiB + 16_MiB);
}

TEST_CASE("pool of pages: it refuses no thread while another one remaps") {
    constexpr std::size_t page = 2_MiB;
    for (std::uint64_t seed = 1; seed <= laws::of_many(24, 4); ++seed) {
        CAPTURE(seed);
        sim_node node{{.capacity  = 32 * page,
                       .on_report = sim_on_report::collect,
                       .threads   = sim_order::by_seed,
                       .seed      = seed}};
        {
            sim_stream s;
            pool       mr{sim_virtual_resource{{.handle_size = page}}, {.remap = true}};
            void*      all[16];
            void*      wide[2];
            for (void*& one : all) { one = mr.allocate(s, 2 * page); }
            for (int i = 0; i < 16; i += 2) {
                busy(s, all[i], 2 * page); // the first one waits for this stream during its remap
                mr.deallocate(s, all[i], 2 * page);
            }
            auto const take = [&](void*& p) { return [&] { p = mr.try_allocate_sync(6 * page); }; };
            {
                sim_thread one{sim_device{}, take(wide[0])};
                sim_thread two{sim_device{}, take(wide[1])};
                sim_thread three{sim_device{}, [&] { CHECK(mr.trim(14 * page) <= 2 * page); }};
            }
            for (void* const p : wide) {
                CHECK(p != nullptr);
                mr.deallocate_sync(p, 6 * page);
            }
            mr.trim();
            CHECK(mr.usage().reserved == 16 * page);
            for (int i = 1; i < 16; i += 2) { mr.deallocate(s, all[i], 2 * page); }
        }
        CHECK(node.figures().used == 0);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: trim waits for a remap of another thread") {
    sim_node           node{{.capacity = 64_MiB, .threads = sim_order::freely}};
    pool               mr{doubles::interrupted_source{{.handle_size = 2_MiB}}, {.remap = true}};
    std::vector<void*> all;
    void*              wide = nullptr;
    for (int i = 0; i < 16; ++i) { all.push_back(mr.allocate_sync(4_MiB)); }
    for (std::size_t i = 0; i < all.size(); i += 2) { mr.deallocate_sync(all[i], 4_MiB); }
    std::latch moving{1};
    {
        sim_thread moves{sim_device{}, [&] {
                             doubles::interrupted_platform::meanwhile = [&] {
                                 doubles::interrupted_platform::meanwhile = [&] {
                                     // The other thread has this long to come too early.
                                     moving.count_down();
                                     std::this_thread::sleep_for(50ms);
                                 };
                             };
                             wide = mr.allocate_sync(12_MiB);
                         }};
        sim_thread trims{sim_device{}, [&] {
                             moving.wait();
                             mr.trim();
                         }};
    }
    CHECK(mr.usage().live == 32_MiB + 12_MiB);
    CHECK(mr.free_memory().bytes == 0);
    mr.deallocate_sync(wide, 12_MiB);
    for (std::size_t i = 1; i < all.size(); i += 2) { mr.deallocate_sync(all[i], 4_MiB); }
}

TEST_CASE("pool of pages: the remapping thread's own request is refused") {
    sim_node           node{{.capacity = 64_MiB, .on_report = sim_on_report::collect}};
    pool               mr{doubles::interrupted_source{{.handle_size = 2_MiB}}, {.remap = true}};
    std::vector<void*> all;
    for (int i = 0; i < 16; ++i) { all.push_back(mr.allocate_sync(4_MiB)); }
    for (std::size_t i = 0; i < all.size(); i += 2) { mr.deallocate_sync(all[i], 4_MiB); }
    bool                  asked  = false;
    std::function<void()> inside = [&] { // waiting for itself would take for ever
        asked = true;
        CHECK(mr.try_allocate_sync(12_MiB) == nullptr);
        mr.trim(32_MiB);
    };
    doubles::interrupted_platform::meanwhile = inside;
    void* const wide                         = mr.allocate_sync(12_MiB);
    CHECK(asked);
    mr.deallocate_sync(wide, 12_MiB);
    for (std::size_t i = 1; i < all.size(); i += 2) { mr.deallocate_sync(all[i], 4_MiB); }
    expect_no_report(node);
}

TEST_CASE("pool of pages: other threads may coalesce very many blocks while a chunk grows") {
    for (int const pairs : {126, 127, 140}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told; // receives the leak report of all these blocks
        sim_stream             a, b, c;
        bool const             full = false;
        pool<narrow_resource>  mr{narrow_resource{full}};
        std::vector<void*>     of_a, of_b;
        constexpr std::size_t  small = 4_KiB;
        auto const             place = [](void* p) { return reinterpret_cast<std::uintptr_t>(p); };
        for (int i = 0; i < pairs; ++i) {
            of_a.push_back(mr.allocate(a, small));
            of_b.push_back(mr.allocate(b, small));
            (void)mr.allocate(c, 256); // separates this pair from the next
        }
        std::uintptr_t const next = place(mr.allocate(c, 256)) + 256;
        std::uintptr_t const at   = align(next, 64_KiB) + 8_KiB;
        (void)mr.allocate(c, at - next);
        void* const one = mr.allocate(a, small); // the request may not begin at this place
        void* const two = mr.allocate(b, 128_KiB);
        CHECK(place(one) == at);
        busy(a, one, small);
        busy(b, two, 128_KiB);
        mr.deallocate(a, one, small);
        mr.deallocate(b, two, 128_KiB);
        (void)mr.usage(); // joins them
        bool ran                = false;
        mr.upstream().meanwhile = [&] {
            ran = true;
            for (int i = 0; i < pairs; ++i) {
                mr.deallocate(a, of_a[static_cast<std::size_t>(i)], small);
                mr.deallocate(b, of_b[static_cast<std::size_t>(i)], small);
            }
        };
        CHECK(mr.allocate(c, 1_MiB, 64_KiB) != nullptr);
        CHECK(ran);
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: a wait for a block includes memory that arrives on its pages") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, y, other;
    pool  mr{virtual_source<doubles::interrupted_pages>{doubles::interrupted_pages{}}, remapping};
    void* wide = mr.allocate(y, 3_MiB, 4_MiB);
    void* x    = mr.allocate(s, 3_MiB);
    void* wall = mr.allocate(s, 2_MiB);
    mr.deallocate_sync(wide, 3_MiB, 4_MiB);
    mr.deallocate_sync(x, 3_MiB);
    mr.deallocate(y, mr.allocate(y, 8_MiB), 8_MiB); // takes the pages of both
    void* const first = mr.allocate(y, 2_MiB);
    void* const used  = mr.allocate(y, 2_MiB);
    void* const last  = mr.allocate(y, 4_MiB);
    void* const here  = mr.allocate(s, 2_MiB);
    mr.deallocate_sync(mr.allocate(s, 2_MiB, 4_MiB), 2_MiB, 4_MiB);
    sim_launch(s, {.name = "short", .writes = {{here, 2_MiB}}, .duration = 1ms});
    mr.deallocate(s, here, 2_MiB);
    sim_launch(y, {.name = "long", .writes = {{used, 2_MiB}}, .duration = 50ms});
    mr.deallocate(y, used, 2_MiB);
    void* beside                             = nullptr;
    doubles::interrupted_platform::meanwhile = [&] { beside = mr.allocate(y, 3_MiB); };
    x                                        = mr.allocate_sync(3_MiB);
    CHECK(static_cast<std::byte*>(x) + 3_MiB == beside);
    CHECK(y.view().done());
    sim_launch(other, {.name = "use", .writes = {{x, 3_MiB}}, .duration = 1ms});
    other.synchronize();
    expect_no_report(node);
    mr.deallocate_sync(x, 3_MiB);
    mr.deallocate(y, beside, 3_MiB);
    mr.deallocate(s, wall, 2_MiB);
    mr.deallocate(y, first, 2_MiB);
    mr.deallocate(y, last, 4_MiB);
}

TEST_CASE("pool of pages: it owns no addresses that were refused") {
    sim_node              node{doubles::small_pages(4096)};
    bool                  full = false;
    pool<narrow_resource> mr{narrow_resource{full}};
    void* const           p     = mr.allocate_sync(several);
    std::size_t const     chunk = mr.usage().reserved;
    full                        = true;
    void* const q               = mr.allocate_sync(chunk);
    CHECK(mr.owns(q));
    CHECK_FALSE(mr.owns(static_cast<std::byte*>(p) + chunk));
    mr.deallocate_sync(p, several);
    mr.deallocate_sync(q, chunk);
}

TEST_CASE("pool of pages: behind a block no page with a pending use is remapped") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  s, y;
    pool        mr{doubles::interrupted_source{{.handle_size = 2_MiB}}, remapping};
    void* const front = mr.allocate(y, 6_MiB);
    void* const wall  = mr.allocate(s, 2_MiB);
    mr.deallocate_sync(front, 6_MiB);
    void* const moved = mr.allocate(s, 8_MiB); // with the pages of the front
    sim_launch(s, {.name = "kernel", .writes = {{moved, 8_MiB}}, .duration = 5ms});
    bool came                                = false;
    doubles::interrupted_platform::meanwhile = [&] { // before the chunk becomes longer
        mr.deallocate(s, moved, 8_MiB);
        mr.deallocate(s, wall, 2_MiB);
        came = true;
    };
    CHECK(mr.allocate(y, 7_MiB) == front); // with the pages that were moved away before
    CHECK(came);
    expect_no_report(node);
    mr.deallocate(y, front, 7_MiB);
}

/// Pages that returned to their previous addresses, in the order of a stream that still writes to
/// them at the other addresses: all bytes of 10 MiB at `left` except the first `idle` bytes.
struct pages_that_left {
    static constexpr std::size_t all = 10_MiB;

    explicit pages_that_left(pool_options options, std::size_t idle)
        : mr{sim_virtual_resource{{.handle_size = 2_MiB}}, (options.remap = true, options)} {
        later = mr.allocate(s, 256);
        if (idle == 0) { mr.deallocate(y, mr.allocate(y, 256), 256); } // else s needs no event
        void* const front = mr.allocate(s, all);
        void* const wall  = mr.allocate(s, 2_MiB);
        stays             = mr.allocate(s, 2_MiB);
        mr.deallocate_sync(front, all);
        mr.deallocate_sync(mr.allocate(s, all + 2_MiB), all + 2_MiB); // with the pages of the front
        left             = idle != 0 ? mr.allocate(s, idle) : nullptr;
        void* const used = mr.allocate(s, all - idle);
        end              = mr.allocate(s, 2_MiB);
        mr.deallocate_sync(wall, 2_MiB);
        if (idle != 0) { mr.deallocate_sync(left, idle); }
        left = idle != 0 ? left : used;
        sim_launch(s, {.name = "kernel", .writes = {{used, all - idle}}, .duration = 5ms});
        mr.deallocate(s, used, all - idle);
        large = mr.allocate(s, all + 2_MiB); // its pages return without a wait
        CHECK_FALSE(s.view().done());
    }
    ~pages_that_left() {
        mr.deallocate(s, large, all + 2_MiB);
        mr.deallocate(s, end, 2_MiB);
        mr.deallocate(s, stays, 2_MiB);
        if (later != nullptr) { free_more(); }
    }
    void free_more() { mr.deallocate(s, std::exchange(later, nullptr), 256); }

    sim_stream                 s, y;
    pool<sim_virtual_resource> mr;
    void *                     left, *large, *end, *stays, *later;
};

TEST_CASE("pool of pages: a capture remaps no page with a pending use") {
    sim_node        node{{.on_report = sim_on_report::collect}};
    sim_stream      captured;
    pages_that_left f{{.events = event_policy::eager, .graphs = true}, 5_MiB};
    sim_graph::begin(captured, sim_capture_mode::relaxed);
    void* const p = f.mr.allocate(captured, 5_MiB);
    expect_no_report(node);
    f.mr.deallocate(captured, p, 5_MiB);
    sim_graph const graph = sim_graph::end(captured);
}

TEST_CASE("pool of pages: no page that a captured stream uses is remapped") {
    for (std::size_t const idle : {0_B, 5_MiB}) { // no page of the block; or a part of one page
        sim_node node{{.on_report = sim_on_report::collect}};
        {
            pages_that_left f{{}, idle};
            if (idle == 0) { f.free_more(); } // which no event covers
            sim_graph::begin(f.s, sim_capture_mode::relaxed);
            std::size_t const bytes = idle != 0 ? idle : f.all;
            void* const       p     = f.mr.allocate(f.y, bytes);
            expect_no_report(node);
            f.mr.deallocate(f.y, p, bytes);
            sim_graph const graph = sim_graph::end(f.s);
        }
        expect_no_report(node);
    }
}

TEST_CASE("pool of pages: during a query of page positions, others stay within its limit") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    pool                   mr{doubles::interrupted_source{{.handle_size = 2_MiB}},
                              {.max_size = 10_MiB, .remap = true}};
    void* const            one  = mr.allocate_sync(4_MiB);
    void* const            wall = mr.allocate_sync(2_MiB);
    void* const            two  = mr.allocate_sync(4_MiB);
    mr.deallocate_sync(one, 4_MiB);
    mr.deallocate_sync(two, 4_MiB);
    int calls = 0;
    node.faults().when([&](sim_call_info const& i) { // of some pages
        return i.kind == sim_call_kind::map && ++calls == 2;
    });
    std::size_t           most  = 0;
    int                   looks = 0;
    std::function<void()> look  = [&] {
        if (void* const p = mr.try_allocate_sync(2_MiB)) { mr.deallocate_sync(p, 2_MiB); }
        memory_usage const now = mr.usage();
        CHECK(now.peak_reserved >= now.reserved);
        most = std::max(most, mr.upstream().usage().reserved);
        if (++looks < 16) { doubles::interrupted_platform::meanwhile = look; }
    };
    doubles::interrupted_platform::meanwhile = look;
    void* const wide                         = mr.allocate_sync(8_MiB);
    doubles::interrupted_platform::meanwhile = nullptr;
    CHECK(calls >= 2);
    CHECK(most <= 10_MiB);
    mr.deallocate_sync(wide, 8_MiB);
    mr.deallocate_sync(wall, 2_MiB);
    expect_no_report(node);
}

TEST_CASE("pool of pages: memory mapped twice in a block is mapped once after a move") {
    struct asked_source : doubles::interrupted_source {
        using interrupted_source::interrupted_source;
        [[nodiscard]] std::size_t mapped(void const* q, std::size_t n) const noexcept {
            ++asked; // a pool need not query while its moves succeed
            return interrupted_source::mapped(q, n);
        }
        mutable std::size_t asked = 0;
    };
    sim_node                                   node{doubles::small_pages(4096)};
    pool                                       mr{asked_source{{.handle_size = small_page}},
                                                  {.max_size = 256 * small_page, .remap = true}};
    std::mt19937_64                            random{1};
    std::vector<std::pair<void*, std::size_t>> out;
    for (int i = 0; i < 20000; ++i) {
        if (out.size() < 12 && random() % 2 == 0) {
            std::size_t const bytes = (1 + random() % 64) * small_page / 2;
            void* const       p     = mr.try_allocate_sync(bytes);
            if (p != nullptr) { out.emplace_back(p, bytes); }
        } else if (!out.empty()) {
            std::swap(out[random() % out.size()], out.back());
            mr.deallocate_sync(out.back().first, out.back().second);
            out.pop_back();
        }
    }
    CHECK(mr.usage().upstream > 1000);
    CHECK(mr.upstream().asked == 0);
    for (auto const& [p, bytes] : out) { mr.deallocate_sync(p, bytes); }
}
