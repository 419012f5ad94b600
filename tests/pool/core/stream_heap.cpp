// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/stream_heap.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/interrupted_platform.hpp"
#include "../../doubles/mishaps.hpp"
#include "../heap_under_lock.hpp"

#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::at;

using heap_of_sim = stream_heap<sim_platform>;
template class vram::detail::stream_heap<sim_platform>;

namespace {

constexpr auto all_bytes_of = [](block const& b) { return b.bytes; };

/// A heap over memory of a device.
struct fixture : tests::heap_under_lock<heap_of_sim> {
    explicit fixture(event_policy events = event_policy::lazy) : heap_under_lock{events, true} {
        heap.add(memory, 1 << 20, 256, nullptr, nullptr);
    }
    ~fixture() { device.deallocate_sync(memory, 1 << 20); }

    sim_resource device;
    void*        memory = device.allocate_sync(1 << 20);
};

} // namespace

TEST_CASE("stream_heap: a request takes its rounded size, and is freed once") {
    fixture     f;
    sim_stream  s;
    void* const p = f.take(s, 1000);
    CHECK(f.heap.usage(all_bytes_of).live == 1024);
    CHECK(f.heap.usage(all_bytes_of).requested == 1000);
    CHECK_FALSE(f.heap.give(f.heap.live(p, 1001), 1001, 256, nullptr));
    CHECK_FALSE(f.heap.give(f.heap.live(p, 1000), 1000, 512, nullptr));
    CHECK(f.heap.give(f.heap.live(p, 1000), 1000, 256, nullptr));
    CHECK_FALSE(f.heap.give(f.heap.live(p, 1000), 1000, 256, nullptr));
    CHECK(f.heap.usage(all_bytes_of).live == 0);
    CHECK(f.take(s, 2 << 20) == nullptr);
}

TEST_CASE("stream_heap: another stream gets a chunk of one stream's order after a wait") {
    sim_node           node;
    sim_async_resource device;
    sim_stream         a, b;
    sim_launch(a, {.name = "earlier", .duration = 1ms});
    sim_stream_view const on     = a;
    void* const           memory = device.allocate(a, 1 << 20);
    {
        heap_of_sim                       heap{event_policy::lazy, false};
        platform_lock<sim_platform> const lock;
        auto                              held = lock.hold();
        heap_of_sim::request const        half{.asked = 1 << 19, .on = &on};
        void* const                       p = heap.add(memory, 1 << 20, 256, &on, &half);
        CHECK(p == memory);
        sim_stream_view const other = b;
        void* const           q     = heap.take({.asked = 1 << 19, .on = &other}, held, false);
        CHECK(q != nullptr);
        CHECK(heap.usage(all_bytes_of).waits == 1);
        CHECK(heap.give(heap.live(p, 1 << 19), 1 << 19, 256, &on));
        CHECK(heap.give(heap.live(q, 1 << 19), 1 << 19, 256, &other));
        heap.finish(held);
        auto const gone = heap.remove_idle(held);
        CHECK(gone.base == memory);
        CHECK(heap.remove_idle(held).bytes == 0);
    }
    device.deallocate_sync(memory, 1 << 20);
}

TEST_CASE("stream_heap: usage shows pending bytes until the streams are queried") {
    fixture     f;
    sim_stream  s;
    void* const p = f.take(s, 4096);
    sim_launch(s, {.name = "use", .writes = {{p, 4096}}, .duration = 1ms});
    f.give(s, p, 4096);
    CHECK(f.heap.usage(all_bytes_of).pending == 4096);
    auto held = f.lock.hold();
    f.heap.finish(held);
    CHECK(f.heap.usage(all_bytes_of).pending == 0);
    CHECK(f.heap.usage(all_bytes_of).events == 1);
}

TEST_CASE("stream_heap: after all of many blocks are freed, their uses are dropped once complete") {
    fixture            f;
    sim_stream         s, other;
    std::vector<void*> out;
    for (int i = 0; i < 64; ++i) { out.push_back(f.take(s, 16384)); }
    for (void* const p : out) { f.give(s, p, 16384); }
    (void)f.heap.usage(all_bytes_of); // coalesces cached blocks, without queries
    (void)f.take(other, 16384);
    std::size_t free = 0;
    f.heap.blocks().for_each([&](block const& b) {
        if (b.now != block::state::free) { return; }
        ++free;
        CHECK(b.slot == block::nobody);
    });
    CHECK(free == 1);
}

TEST_CASE("stream_heap: a block that a captured stream uses is skipped") {
    fixture     f;
    sim_stream  s, other;
    void* const p = f.take(s, 1 << 20);
    f.give(s, p, 1 << 20);
    sim_graph::begin(s);
    CHECK(f.take(other, 256) == nullptr); // the progress of a captured stream is unknown
    (void)sim_graph::end(s);
    CHECK(f.take(other, 256) == nullptr); // and a graph may use the memory
    f.heap.forget_captures(f.lock.hold());
    void* const q = f.take(other, 256);
    CHECK(q != nullptr);
    f.give(other, q, 256);
}

TEST_CASE("stream_heap: cached blocks are coalesced before usage is counted, and all if nothing is "
          "live") {
    sim_node     node;
    sim_resource device;
    void* const  memory = device.allocate_sync(4_MiB);
    {
        heap_of_sim                       heap{event_policy::lazy, false, false};
        platform_lock<sim_platform> const lock;
        auto                              held = lock.hold();
        sim_stream                        s;
        sim_stream_view const             on = s;
        heap.add(memory, 4_MiB, 256, nullptr, nullptr);
        void* p = heap.take({.asked = 1_MiB, .on = &on}, held, false);
        CHECK(heap.give(heap.live(p, 1_MiB), 1_MiB, 256, &on));
        CHECK(heap.blocks().largest_free() == 3_MiB);
        CHECK(heap.take_quick(on, 1_MiB, 256)->pointer() == p);
        CHECK(heap.give(heap.live(p, 1_MiB), 1_MiB, 256, &on));
        CHECK(heap.usage(all_bytes_of).largest_free == 4_MiB); // joined first
        p = heap.take({.asked = 1_MiB + 256, .on = &on}, held, false);
        CHECK(heap.give(heap.live(p, 1_MiB + 256), 1_MiB + 256, 256, &on));
        CHECK(heap.blocks().largest_free() == 4_MiB);
        void* const low  = heap.take({.asked = 1_MiB + 256, .on = &on}, held, false);
        void* const high = heap.take({.asked = 2_MiB, .on = &on}, held, false);
        CHECK(heap.give(heap.live(low, 1_MiB + 256), 1_MiB + 256, 256, &on));
        CHECK(heap.blocks().largest_free() == 1_MiB - 256);
        CHECK(heap.give(heap.live(high, 2_MiB), 2_MiB, 256, &on));
        CHECK(heap.blocks().largest_free() == 4_MiB);
        heap.finish(held);
        CHECK(heap.remove_idle(held).base == memory);
    }
    device.deallocate_sync(memory, 4_MiB);
}

TEST_CASE("stream_heap: a host wait for parts of a block leaves no use behind") {
    fixture                    f;
    sim_stream                 a, b;
    std::size_t const          half = 1 << 19;
    heap_of_sim::request const all{.asked = 2 * half};
    std::uint64_t              usual = 0, most = 0;
    for (int i = 0; i < 400; ++i) { // more often than nodes are allocated at a time
        std::uint64_t const before = doubles::host_allocations();
        void* const         p      = f.take(a, half);
        void* const         q      = f.take(b, half);
        for (sim_stream const* at_work : {&a, &b}) {
            sim_launch(*at_work, {.name = "kernel", .duration = 1ms});
        }
        f.give(a, p, half);
        f.give(b, q, half);
        auto        held = f.lock.hold();
        void* const both = f.heap.take(all, held, true);
        CHECK(f.heap.live(both, all.asked)->slot == block::nobody);
        std::uint64_t const taken = doubles::host_allocations() - before;
        if (i == 100) { usual = taken; } // the simulated device's own
        if (i > 100 && taken > most) { most = taken; }
        sim_stream_view const on = a;
        CHECK(f.heap.give(f.heap.live(both, all.asked), all.asked, 256, &on));
    }
    CHECK(most == usual);
}

TEST_CASE("stream_heap: a cached block is found by its stream only, and only as requested") {
    fixture               f;
    sim_stream            a, b, never_seen;
    constexpr std::size_t all  = 1 << 20;
    void*                 p    = f.take(a, all);
    auto                  held = f.lock.hold();
    CHECK(f.heap.give_quick(f.heap.live(p, all), all, 256, a));
    CHECK(f.heap.take_quick(b, all, 256) == nullptr);
    CHECK(f.heap.take_quick(a, 0, 256) == nullptr);
    CHECK(f.heap.take_quick(a, 512, 3) == nullptr); // no alignment
    CHECK(f.heap.take_quick(a, ~std::size_t{0}, 256) == nullptr);
    CHECK(f.heap.take_quick(a, all, 256)->pointer() == p);
    block* const out = f.heap.live(p, all);
    CHECK_FALSE(f.heap.give_quick(out, 256, 256, a));
    CHECK_FALSE(f.heap.give_quick(out, all, 512, a));
    CHECK_FALSE(f.heap.give_quick(nullptr, all, 256, a));
    CHECK_FALSE(f.heap.give_quick(out, all, 256, never_seen));
    CHECK(f.heap.live_bytes() == all);
    CHECK(f.heap.give_quick(out, all, 256, a));
    CHECK(f.heap.live_bytes() == 0);
}

TEST_CASE("stream_heap: a free of a graph's memory takes the slow path until it is forgotten") {
    constexpr std::size_t half = 1 << 19;
    fixture               f;
    sim_stream            s, other;
    void* const           p = f.take(s, half);
    void* const           q = f.take(other, half);
    sim_graph::begin(s);
    f.give(s, p, half);
    CHECK(f.take(other, half) == nullptr); // from now on, the block is kept for the graph
    f.give(other, q, half);
    CHECK(f.take(s, half) == p);
    (void)sim_graph::end(s);
    CHECK_FALSE(f.heap.give_quick(f.heap.live(p, half), half, 256, s));
    f.heap.forget_captures(f.lock.hold());
    CHECK(f.heap.give_quick(f.heap.live(p, half), half, 256, s));
}

TEST_CASE("stream_heap: there are nodes even if cached blocks had used all of them") {
    sim_node                          node;
    sim_stream                        a, b, c;
    heap_of_sim                       heap{event_policy::lazy, false};
    platform_lock<sim_platform> const lock;
    auto                              held = lock.hold();
    std::vector<block*>               pieces;
    {
        sim_stream_view const      on = a;
        heap_of_sim::request const piece{.asked = 256, .on = &on};
        void*                      p = heap.add(at(0x10000000), 1_MiB, 256, nullptr, &piece);
        for (; p != nullptr; p = heap.take(piece, held, false)) {
            pieces.push_back(heap.live(p, 256));
        }
    }
    REQUIRE(pieces.size() == 4096); // nothing is left
    auto const rest = [&](std::size_t first, sim_stream_view left, sim_stream_view right) {
        CHECK(heap.give(pieces[first], 256, 256, &left));
        CHECK(heap.give(pieces[first + 1], 256, 256, &right));
    };
    // Cached blocks are coalesced stream by stream, the last stream first: the two pairs around
    // piece 1600, and other pairs while there are nodes; then that piece, which has a spare node,
    // and the block that takes it.
    for (std::size_t i = 0; i < 200; ++i) { rest(3 * i, a, b); }
    for (std::size_t i = 0; i < 4; ++i) { rest(2000 + 3 * i, a, c); }
    rest(1598, a, b);
    rest(1601, a, b);
    sim_stream_view const on = c;
    CHECK(heap.give(pieces[1600], 256, 256, &on));
    heap_of_sim::request const page{.asked = 256, .alignment = 4096, .on = &on};
    CHECK(heap.take(page, held, false) == at(0x10000000 + 1600 * 256)); // two nodes for the rest
    CHECK(heap.blocks().largest_free() == 512);
}

TEST_CASE("stream_heap: a byte with pending uses of two streams is pending once") {
    sim_node                   node;
    sim_stream                 s[2];
    heap_of_sim                heap{event_policy::lazy, false};
    sim_stream_view            on = s[0];
    std::vector<block*>        out;
    heap_of_sim::request const piece{.asked = 4096, .on = &on};
    void* const                first = heap.add(at(0x10000000), 10 * 4096, 256, nullptr, &piece);
    for (block* b = heap.live(first, 4096); b != nullptr; b = heap.take_quick(on, 4096, 256)) {
        out.push_back(b);
    }
    REQUIRE(out.size() == 10);
    // More pieces than a block can have uses: some uses are merged.
    for (std::size_t i = 0; i < 10; ++i) {
        on = s[i % 2];
        CHECK(heap.give(out[i], 4096, 256, &on));
    }
    CHECK(heap.usage(all_bytes_of).pending == 10 * 4096);
    CHECK(heap.usage(all_bytes_of).largest_free == 10 * 4096);
}

TEST_CASE("stream_heap: small blocks stay cached if larger cached ones suffice") {
    fixture     f;
    sim_stream  s;
    void* const low   = f.take(s, 512 << 10);
    void* const small = f.take(s, 4096);
    void* const high  = f.take(s, 500 << 10);
    f.give(s, low, 512 << 10);
    f.give(s, small, 4096);
    f.give(s, high, 500 << 10);
    void* const p = f.take(s, 400 << 10);
    CHECK(p == high);
    CHECK(f.heap.take_quick(s, 4096, 256)->pointer() == small); // this block was not coalesced
    f.give(s, small, 4096);
    f.give(s, p, 400 << 10);
    CHECK(f.take(s, 1 << 20) == low); // and is now
    f.give(s, low, 1 << 20);
}

TEST_CASE("stream_heap: a block that was allocated for a smaller size is cached for that size, "
          "completely") {
    fixture     f;
    sim_stream  s;
    void* const p = f.take(s, 9216);
    f.give(s, p, 9216);
    CHECK(f.heap.take_quick(s, 8192, 256)->pointer() == p);
    CHECK(f.heap.usage(all_bytes_of).live == 9216);
    CHECK(f.heap.give_quick(f.heap.live(p, 8192), 8192, 256, s));
    block* const other = f.heap.take_quick(s, 8448, 256);
    REQUIRE(other != nullptr);
    CHECK(other->pointer() != p);
    CHECK(f.heap.take_quick(s, 8192, 256)->pointer() == p);
    CHECK(f.heap.usage(all_bytes_of).live == 9216 + 8448);
    f.give(s, p, 8192);
    f.give(s, other->pointer(), 8448);
    CHECK(f.take(s, 1 << 20) == f.memory);
    f.give(s, f.memory, 1 << 20);
}

namespace {

/// A heap over addresses alone.
template <bool InPlace = false>
struct large_fixture : tests::heap_under_lock<stream_heap<sim_platform, InPlace>> {
    explicit large_fixture(std::size_t large_limit = quick_lists::large_limit)
        : tests::heap_under_lock<stream_heap<sim_platform, InPlace>>{{}, false, large_limit} {
        this->heap.add(at(0x10000000), all, 256, nullptr, nullptr);
    }
    ~large_fixture() {
        auto held = this->lock.hold();
        this->heap.finish(held);
        CHECK(this->heap.remove_idle(held).bytes == all);
    }
    [[nodiscard]] std::size_t largest() const { return this->heap.blocks().largest_free(); }

    static constexpr std::size_t all = 1_GiB;
};

} // namespace

TEST_CASE("stream_heap: the last freed large block is reused as it is") {
    large_fixture<> f;
    sim_stream      s, other;
    void* const     out  = f.take(s, 2_MiB);
    void* const     low  = f.take(s, 8_MiB);
    void* const     high = f.take(s, 4_MiB);
    void* const     last = f.take(s, 8_MiB);
    f.give(s, low, 8_MiB);
    CHECK(f.heap.give_quick(f.heap.live(high, 4_MiB), 4_MiB, 256, s));
    CHECK(f.heap.live(high, 4_MiB) == nullptr);
    // Coalesced, it would begin at `low`.
    CHECK(f.heap.take_quick(s, 4_MiB, 256)->pointer() == high);
    CHECK(f.heap.usage(all_bytes_of).live == 14_MiB);
    SUBCASE("and is joined for another size") {
        f.give(s, high, 4_MiB);
        CHECK(f.heap.take_quick(s, 12_MiB, 256)->pointer() == low);
        f.give(s, low, 12_MiB);
    }
    SUBCASE("and for another size that is not had quickly") {
        f.give(s, high, 4_MiB);
        CHECK(f.take(s, 12_MiB) == low);
        f.give(s, low, 12_MiB);
    }
    SUBCASE("and for another alignment") {
        f.give(s, high, 4_MiB);
        CHECK(f.heap.take_quick(s, 4_MiB, 16_MiB) == nullptr);
        CHECK(f.heap.take_quick(s, 12_MiB, 256)->pointer() == low);
        f.give(s, low, 12_MiB);
    }
    SUBCASE("and is not another stream's") {
        sim_launch(s, {.name = "use", .duration = 1ms});
        f.give(s, high, 4_MiB);
        CHECK(f.heap.take_quick(other, 4_MiB, 256) == nullptr);
        CHECK(f.heap.usage(all_bytes_of).pending >= 12_MiB);
    }
    SUBCASE("and joins when the next one comes back") {
        f.give(s, high, 4_MiB);
        std::size_t const before = f.largest();
        f.give(s, last, 8_MiB); // it is cached
        CHECK(f.largest() == before);
        CHECK(f.heap.take_quick(s, 8_MiB, 256)->pointer() == last);
        CHECK(f.heap.take_quick(s, 12_MiB, 256)->pointer() == low);
        f.give(s, low, 12_MiB);
    }
    if (f.heap.live(last, 8_MiB) != nullptr) { f.give(s, last, 8_MiB); }
    f.give(s, out, 2_MiB);
}

TEST_CASE("stream_heap: the last live large block is not cached, although a small one is") {
    large_fixture<> f;
    sim_stream      s;
    void* const     small = f.take(s, 4096);
    void* const     large = f.take(s, 8_MiB);
    f.give(s, small, 4096);
    CHECK(f.largest() == f.all - 8_MiB - 4096);
    f.give(s, large, 8_MiB);
    CHECK(f.largest() == f.all - 4096);
}

TEST_CASE("stream_heap: a very large block is not cached, nor one at the end of a growing chunk") {
    sim_stream s;
    auto const rests = [&](auto& f, void* p, std::size_t bytes) {
        block const* const b = f.heap.live(p, bytes);
        f.give(s, p, bytes);
        return b->now == block::state::cached;
    };
    large_fixture<>     fixed;
    large_fixture<true> growing;
    void* const         first = fixed.take(s, 2_MiB);
    CHECK_FALSE(rests(fixed, fixed.take(s, 64_MiB + 256), 64_MiB + 256));
    CHECK(fixed.largest() == fixed.all - 2_MiB);
    CHECK(rests(fixed, fixed.take(s, 64_MiB), 64_MiB));
    CHECK(fixed.largest() == fixed.all - 66_MiB);
    fixed.give(s, first, 2_MiB);
    void* const low    = growing.take(s, 2_MiB);
    void* const middle = growing.take(s, 8_MiB);
    void* const high   = growing.take(s, 8_MiB);
    CHECK(rests(growing, middle, 8_MiB));
    CHECK_FALSE(rests(growing, high, 8_MiB));
    CHECK(growing.largest() == growing.all - 10_MiB);
    growing.give(s, low, 2_MiB);
    for (bool const moved : {false, true}) { // no cached block exceeds the limit of the constructor
        large_fixture<> low_fixture{moved ? 4_MiB : 2_MiB};
        if (moved) {
            heap_of_sim other{event_policy::lazy, false, false, 2_MiB};
            other.add(at(0x10000000), low_fixture.all, 256, nullptr, nullptr);
            low_fixture.heap = std::move(other);
        }
        void* const out = low_fixture.take(s, 2_MiB);
        CHECK_FALSE(rests(low_fixture, low_fixture.take(s, 2_MiB + 256), 2_MiB + 256));
        CHECK(rests(low_fixture, low_fixture.take(s, 2_MiB), 2_MiB));
        low_fixture.give(s, out, 2_MiB);
    }
}

TEST_CASE("stream_heap: for a large request all cached blocks are coalesced, and if chunks grow") {
    sim_node     node;
    sim_resource device;
    sim_stream   s;
    auto const   left_free = [&](auto heap, std::size_t bulky, std::size_t asked) {
        void* const                       memory = device.allocate_sync(4_MiB);
        platform_lock<sim_platform> const lock;
        auto                              held = lock.hold();
        sim_stream_view const             on   = s;
        heap.add(memory, 4_MiB, 256, nullptr, nullptr);
        auto const take = [&](std::size_t bytes) {
            return heap.take({.asked = bytes, .on = &on}, held, false);
        };
        auto const give = [&](void* p, std::size_t bytes) {
            CHECK(heap.give(heap.live(p, bytes), bytes, 256, &on));
        };
        void* const low   = take(bulky);
        void* const high  = take(bulky);
        void* const small = take(4096);
        void* const guard = take(4_MiB - 2 * bulky - 4096);
        give(low, bulky);
        give(high, bulky);
        give(small, 4096);
        void* const p = take(asked);
        CHECK(p == low);
        std::size_t const largest = heap.blocks().largest_free();
        give(p, asked);
        give(guard, 4_MiB - 2 * bulky - 4096);
        heap.finish(held);
        CHECK(heap.remove_idle(held).base == memory);
        device.deallocate_sync(memory, 4_MiB);
        return largest;
    };
    using growing     = stream_heap<sim_platform, true>;
    auto const events = event_policy::lazy;
    CHECK(left_free(heap_of_sim{events, false, false}, 1_MiB, 1_MiB + 256) == 1_MiB + 4096 - 256);
    CHECK(left_free(growing{events, false, false}, 512_KiB, 1_MiB) == 4096);
    CHECK(left_free(heap_of_sim{events, false, false}, 512_KiB, 1_MiB) == 0); // it stays cached
}

TEST_CASE("stream_heap: memory that a stream has waited for is found without a search") {
    fixture     f;
    sim_stream  a, b;
    void* const p = f.take(a, 1 << 20);
    sim_launch(a, {.name = "use", .writes = {{p, 1 << 20}}, .duration = 1ms});
    f.give(a, p, 1 << 20);
    CHECK(f.heap.take_quick(b, 256, 256) == nullptr);
    void* const front = f.take(b, 256);
    CHECK(front == p);
    CHECK(f.heap.usage(all_bytes_of).waits == 1);
    block* const next = f.heap.take_quick(b, 512, 256);
    REQUIRE(next != nullptr);
    CHECK(f.heap.usage(all_bytes_of).waits == 1);
    f.give(b, front, 256);
    f.give(b, next->pointer(), 512);
    auto held = f.lock.hold();
    f.heap.finish(held);
}

TEST_CASE("stream_heap: other threads may split very many blocks during a failed wait") {
    using doubles::interrupted_platform;
    for (int const cuts : {120, 121, 130}) {
        sim_node                          node{{.on_report = sim_on_report::collect}};
        sim_stream                        a, b, c;
        std::size_t const                 all = 64_KiB + 1_MiB + 256 + 3_MiB + 256 + 256_KiB;
        doubles::mishaps const            told; // receives the leak report of all these blocks
        pool<doubles::interrupted_memory> mr{{.initial_size = all, .max_size = all}};
        (void)mr.allocate(a, 64_KiB);
        void* const of_a = mr.allocate(a, 512_KiB);
        void* const of_b = mr.allocate(b, 512_KiB);
        (void)mr.allocate(c, 256);
        void* const large = mr.allocate(c, 3_MiB);
        (void)mr.allocate(c, 256);
        mr.deallocate_sync(mr.allocate(c, 256_KiB), 256_KiB); // which small blocks are cut from
        for (auto const& [s, p] : {std::pair{&a, of_a}, std::pair{&b, of_b}}) {
            sim_launch(*s, {.name = "kernel", .writes = {{p, 512_KiB}}, .duration = 1ms});
            mr.deallocate(*s, p, 512_KiB);
        }
        sim_graph::begin(b, sim_capture_mode::relaxed);
        interrupted_platform::meanwhile = [&] {
            mr.deallocate_sync(large, 3_MiB);
            for (int i = 0; i < cuts; ++i) { (void)mr.allocate(c, 256); }
        };
        CHECK(mr.allocate_sync(1_MiB, 64_KiB) != nullptr);
        CHECK(interrupted_platform::meanwhile == nullptr);
        sim_graph const graph = sim_graph::end(b);
        CHECK(node.reports().empty());
    }
}
