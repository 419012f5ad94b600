// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/block_heap.hpp> // first: the header stands alone

#include "../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <vector>

using namespace vram;
using doubles::at;

namespace {

constexpr auto never  = [](tag const&) { return false; };
constexpr auto always = [](tag const&) { return true; };
struct {
    unsigned operator()(tags const& t) const { return t.empty() ? 0U : 1U; }
    unsigned operator()(std::size_t, std::uint64_t) const { return 1; }
} constexpr clean{};

block* take(block_heap& heap, std::size_t bytes, std::size_t alignment = 256) {
    heap.reserve();
    auto const place = heap.find(bytes, alignment, clean, false);
    return place.where == nullptr ? nullptr : heap.take(place, bytes);
}

template <class Settled>
void give(block_heap& heap, block* b, tags const& held, Settled const& settled) {
    heap.reserve();
    heap.hold(b, held);
    heap.give(b, settled);
}

/// Every byte of every chunk is in exactly one block, and the figures agree.
bool sound(block_heap const& heap) {
    std::size_t free = 0, all = 0, live = 0;
    heap.for_each([&](block const& b) {
        all += b.bytes;
        if (b.now == block::state::free) {
            free += b.bytes;
        } else {
            ++live;
        }
        if (b.after != nullptr && (b.after->before != &b || b.after->address != b.end())) {
            all = 0;
        }
    });
    return all == heap.reserved() && free == heap.free_bytes() && live == heap.live_blocks();
}

} // namespace

TEST_CASE("block_heap: random blocks never overlap, and join to one when all are back") {
    std::mt19937_64 random{11};
    block_heap      heap;
    heap.add(at(0x10000000), 16 << 20, 256, {});
    std::vector<block*> out;
    for (int i = 0; i < 300000; ++i) {
        if (out.size() < 500 && random() % 2 == 0) {
            std::size_t const bytes     = 256 * (1 + random() % (random() % 8 == 0 ? 400 : 8));
            std::size_t const alignment = std::size_t{256} << random() % 5;
            block* const      b         = take(heap, bytes, alignment);
            if (b == nullptr) { continue; }
            if (b->bytes != bytes || b->address % alignment != 0) { FAIL("wrong block"); }
            if (heap.live(b->pointer()) != b) { FAIL("not found"); }
            out.push_back(b);
        } else if (!out.empty()) {
            std::size_t const index = random() % out.size();
            give(heap, out[index], {}, always);
            out[index] = out.back();
            out.pop_back();
        }
        if (i % 1000 == 0) { CHECK(sound(heap)); }
    }
    for (block* const b : out) { give(heap, b, {}, always); }
    CHECK(sound(heap));
    CHECK(heap.largest_free() == 16 << 20);
    CHECK(heap.chunks()[0].idle());
}

TEST_CASE("block_heap: the tightest hole is taken, and the part of a block that waits for nobody") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 20, 256, {});
    block* const a = take(heap, 4096);
    block* const b = take(heap, 256);
    block* const c = take(heap, 2048);
    take(heap, 256);
    std::uintptr_t const hole = c->address;
    give(heap, a, {}, never);
    give(heap, c, {}, never);
    CHECK(take(heap, 2048)->address == hole);
    give(heap, b, tags{{b->address, b->end(), 1, 0}}, never); // joins with a's place, at its end
    auto const place = heap.find(4096, 256, clean, false);
    CHECK(place.cost == 0);
    CHECK(place.start == 0x100000);
    auto const large = heap.find(4096 + 256, 256, clean, false); // not without waiting: elsewhere
    CHECK(large.cost == 0);
    CHECK(large.start > hole);
}

TEST_CASE("block_heap: neighbours whose tags have no room for each other join when they are done") {
    block_heap heap;
    heap.add(at(0x100000), 6 * 256, 256, {});
    block* blocks[6];
    for (auto& b : blocks) { b = take(heap, 256); }
    for (std::size_t i = 0; i < 6; ++i) {
        give(heap, blocks[i], tags{{blocks[i]->address, blocks[i]->end(), 1, i}}, never);
    }
    CHECK(heap.largest_free() < 6 * 256);
    CHECK(sound(heap));
    heap.tidy(always);
    CHECK(heap.largest_free() == 6 * 256);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: an idle chunk can be taken out, the cheapest and largest first") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 16, 256, {});
    heap.add(at(0x200000), 1 << 18, 512, {});
    heap.add(at(0x300000), 1 << 17, 256, tags{{0x300000, 0x300100, 1, 0}});
    CHECK(heap.owns(at(0x200000)));
    CHECK_FALSE(heap.owns(at(0x200000 + (1 << 18))));
    auto const index = heap.idle_chunk(clean);
    CHECK(heap.chunks()[index].bytes == 1 << 18);
    auto const gone = heap.remove(index);
    CHECK(gone.base == at(0x200000));
    CHECK(gone.alignment == 512);
    CHECK_FALSE(heap.owns(at(0x200000)));
    block* const b = take(heap, 1 << 16);
    CHECK(b->address == 0x100000);
    CHECK(heap.chunks()[heap.idle_chunk(clean)].bytes == 1 << 17);
    heap.remove(heap.idle_chunk(clean));
    CHECK(heap.idle_chunk(clean) == heap.chunks().size());
    CHECK(sound(heap));
}

TEST_CASE("block_heap: what is moved from is empty, and blocks stay where they are") {
    block_heap a;
    a.add(at(0x100000), 1 << 16, 256, {});
    block* const b = take(a, 512);
    block_heap   c{std::move(a)};
    CHECK(a.reserved() == 0);
    CHECK(a.chunks().size() == 0);
    CHECK(take(a, 256) == nullptr);
    CHECK(c.live(b->pointer()) == b);
    give(c, b, {}, always);
    CHECK(c.largest_free() == 1 << 16);
}

TEST_CASE("block_heap: what is kept for a capture is not joined away") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 16, 256, {});
    block* const b = take(heap, 512);
    give(heap, b, tags{{b->address, b->end(), 3, 2}}, never);
    heap.keep_for_capture(2);
    struct {
        unsigned operator()(tags const& t) const {
            for (tag const& each : t) {
                if (each.epoch == tag::captured) { return block_heap::unusable; }
            }
            return 0;
        }
        unsigned operator()(std::size_t, std::uint64_t epoch) const {
            return epoch == tag::captured ? block_heap::unusable : 0;
        }
    } const price;
    CHECK(heap.find(1 << 16, 256, price, true).where == nullptr);
    CHECK(heap.find(256, 256, price, true).start != 0x100000);
}
