// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_heap.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

constexpr auto never  = [](tag const&) { return false; };
constexpr auto always = [](tag const&) { return true; };
struct {
    availability operator()(tags const& t) const {
        return t.empty() ? availability::ready : availability::needs_wait;
    }
    availability operator()(std::size_t, std::uint64_t) const { return availability::needs_wait; }
} constexpr clean{};

block* take(block_heap& heap, std::size_t bytes, std::size_t alignment = 256) {
    heap.reserve();
    auto const place = heap.find(bytes, alignment, clean, false);
    return place.where == nullptr ? nullptr : heap.take(place, bytes);
}

template <class IsComplete>
void give(block_heap& heap, block* b, tags const& held, IsComplete const& is_complete) {
    heap.reserve();
    heap.hold(b, held);
    heap.give(b, is_complete);
}

/// Returns the free block at the end of a chunk that grows in place; it may be empty.
block const* end_of_chunk(block_heap const& heap, std::size_t index = 0) {
    block const* b = heap.chunks()[index].first;
    while (b->after != nullptr) { b = b->after; }
    return b;
}

/// Ends the growth of a chunk, and marks its last block as fully backed.
void grow(block_heap& heap, block_heap::chunk_extension const& m, std::size_t by) {
    heap.end_growth(m.base, by);
    for (auto const& c : heap.chunks()) {
        block* b = c.first;
        while (b->after != nullptr) { b = b->after; }
        if (c.base == m.base && b->unbacked) { heap.complete(b); }
    }
}

std::size_t bytes_free(block_heap const& heap) {
    std::size_t free = 0;
    heap.chunks().for_each(
        [&](block const& b) { free += b.now == block::state::free ? b.bytes : 0; });
    return free;
}

/// Requires that every byte of every chunk is in exactly one block, that the counts agree, and that
/// free neighbours were coalesced unless the heap reports that some may not be.
bool sound(block_heap const& heap) {
    std::size_t all = 0, live = 0;
    bool        parted = false;
    heap.chunks().for_each([&](block const& b) {
        all += b.bytes;
        live += b.now != block::state::free;
        if (b.after != nullptr && (b.after->before != &b || b.after->address != b.end())) {
            all = 0;
        }
        auto const free = [](block const* one) {
            return one != nullptr && one->now == block::state::free;
        };
        parted = parted || (free(&b) && free(b.after));
    });
    return all == heap.chunks().reserved() && live == heap.live_blocks() &&
           (!parted || heap.has_uncoalesced());
}

} // namespace

TEST_CASE("block_heap: random blocks never overlap, and coalesce to one when all are freed") {
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

TEST_CASE("block_heap: it records if free neighbours are not coalesced, also after a move") {
    block_heap heap;
    heap.add(at(0x100000), 64 * 256, 256, {});
    std::vector<block*> out;
    for (int i = 0; i < 64; ++i) { out.push_back(take(heap, 256)); }
    CHECK_FALSE(heap.has_uncoalesced());
    for (std::size_t i = 0; i < out.size(); ++i) { // each waits for a stream of its own
        give(heap, out[i], tags{{out[i]->address, out[i]->end(), 1, i}}, never);
    }
    CHECK(heap.has_uncoalesced());
    block_heap other{std::move(heap)};
    CHECK(other.has_uncoalesced());
    CHECK_FALSE(heap.has_uncoalesced());
    other.coalesce_pending(never);
    CHECK(other.has_uncoalesced());
    other.coalesce_pending(always);
    CHECK_FALSE(other.has_uncoalesced());
    CHECK(other.largest_free() == 64 * 256);
}

TEST_CASE("block_heap: the best fit is taken, and the part of a block without a pending use") {
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
    // Is merged with the free block of a, behind it.
    give(heap, b, tags{{b->address, b->end(), 1, 0}}, never);
    auto const place = heap.find(4096, 256, clean, false);
    CHECK(place.cost == availability::ready);
    CHECK(place.start == 0x100000);
    // The whole would need a wait, so another place is found.
    auto const large = heap.find(4096 + 256, 256, clean, false);
    CHECK(large.cost == availability::ready);
    CHECK(large.start > hole);
}

TEST_CASE("block_heap: neighbours whose uses do not fit into one node coalesce when complete") {
    block_heap            heap;
    constexpr std::size_t count = tags::most + 2;
    heap.add(at(0x100000), count * 256, 256, {});
    block* blocks[count];
    for (auto& b : blocks) { b = take(heap, 256); }
    for (std::size_t i = 0; i < count; ++i) {
        give(heap, blocks[i], tags{{blocks[i]->address, blocks[i]->end(), 1, i}}, never);
    }
    CHECK(heap.largest_free() < count * 256);
    CHECK(sound(heap));
    heap.coalesce_pending(always);
    CHECK(heap.largest_free() == count * 256);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: uses are checked again if neighbours are not coalesced, and only then") {
    block_heap heap;
    heap.add(at(0x100000), 64 * 256, 256, tags{{0x100000, 0x104000, 1, 3}});
    int        asked = 0;
    auto const done  = [&](tag const&) { return ++asked != 0; };
    heap.coalesce_pending(done);
    CHECK(asked == 0);
    CHECK(heap.chunks()[0].first->slot == 3);
    std::vector<block*> out;
    for (int i = 0; i < 64; ++i) { out.push_back(take(heap, 256)); }
    for (std::size_t i = 0; i < out.size(); ++i) {
        give(heap, out[i], tags{{out[i]->address, out[i]->end(), 1, i}}, never);
    }
    heap.coalesce_pending(done);
    CHECK(asked > 0);
    CHECK(heap.chunks()[0].first->slot == block::nobody);
    CHECK(heap.largest_free() == 64 * 256);
    heap.coalesce_pending(done);
    int const before = asked;
    heap.coalesce_pending(done);
    CHECK(asked == before);
}

TEST_CASE("block_heap: coalescing all blocks drops completed uses") {
    block_heap heap;
    heap.add(at(0x100000), 4096, 256, tags{{0x100000, 0x101000, 1, 3}});
    heap.coalesce_all(never);
    CHECK(heap.chunks()[0].first->slot == 3);
    heap.coalesce_all(always);
    CHECK(heap.chunks()[0].first->slot == block::nobody);
    CHECK_FALSE(heap.has_uncoalesced());
    CHECK(sound(heap));
}

TEST_CASE("block_heap: an idle chunk can be removed, the most available and largest first") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 16, 256, {});
    heap.add(at(0x200000), 1 << 18, 512, {});
    heap.add(at(0x300000), 1 << 17, 256, tags{{0x300000, 0x300100, 1, 0}});
    CHECK(heap.chunks().owns(at(0x200000)));
    CHECK_FALSE(heap.chunks().owns(at(0x200000 + (1 << 18))));
    auto const index = heap.idle_chunk(clean);
    CHECK(heap.chunks()[index].bytes == 1 << 18);
    auto const gone = heap.remove(index);
    CHECK(gone.base == at(0x200000));
    CHECK(gone.alignment == 512);
    CHECK_FALSE(heap.chunks().owns(at(0x200000)));
    block* const b = take(heap, 1 << 16);
    CHECK(b->address == 0x100000);
    CHECK(heap.chunks()[heap.idle_chunk(clean)].bytes == 1 << 17);
    heap.remove(heap.idle_chunk(clean));
    CHECK(heap.idle_chunk(clean) == heap.chunks().size());
    CHECK(sound(heap));
}

TEST_CASE("block_heap: a moved-from heap is empty, and blocks do not move") {
    block_heap a;
    a.add(at(0x100000), 1 << 16, 256, {});
    block* const b = take(a, 512);
    block_heap   c{std::move(a)};
    CHECK(a.chunks().reserved() == 0);
    CHECK(a.chunks().size() == 0);
    CHECK(take(a, 256) == nullptr);
    CHECK(c.live(b->pointer()) == b);
    give(c, b, {}, always);
    CHECK(c.largest_free() == 1 << 16);
}

TEST_CASE("block_heap: a graph-retained block is not coalesced away") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 16, 256, {});
    block* const b = take(heap, 512);
    give(heap, b, tags{{b->address, b->end(), 3, 2}}, never);
    heap.keep_for_capture(2, 4); // for later frees
    CHECK(heap.chunks()[0].first->waits_for().kept().empty());
    heap.keep_for_capture(2, 3);
    struct {
        availability operator()(tags const& t) const {
            for (tag const& each : t) {
                if (each.epoch == tag::captured) { return availability::unavailable; }
            }
            return availability::ready;
        }
        availability operator()(std::size_t, std::uint64_t epoch) const {
            return epoch == tag::captured ? availability::unavailable : availability::ready;
        }
    } const price;
    CHECK(heap.find(1 << 16, 256, price, true).where == nullptr);
    CHECK(heap.find(256, 256, price, true).start != 0x100000);
}

TEST_CASE("block_heap: a pending use is not coalesced with a graph's use of its stream") {
    std::vector<std::size_t> order{0, 1, 2, 3};
    do {
        for (bool const in_place : {false, true}) {
            block_heap heap{in_place};
            heap.add(at(0x100000), 4 * 512, 256, {});
            std::vector<block*> blocks;
            for (std::size_t i = 0; i < 4; ++i) { blocks.push_back(take(heap, 512)); }
            for (std::size_t const i : order) { // every second use is graph-retained
                std::uint64_t const epoch = i % 2 == 0 ? 3 : tag::captured;
                give(heap, blocks[i], tags{{blocks[i]->address, blocks[i]->end(), epoch, 2}},
                     never);
            }
            bool waits[4]{};
            heap.chunks().for_each([&](block const& b) {
                for (tag const& t : b.waits_for()) {
                    if (t.epoch == tag::captured) { continue; }
                    for (std::size_t i = 0; i < 4; ++i) {
                        auto const from = 0x100000 + i * 512;
                        waits[i]        = waits[i] || (t.begin <= from && t.end >= from + 512);
                    }
                }
            });
            CHECK((waits[0] && waits[2]));
            CHECK_FALSE((waits[1] || waits[3]));
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE(
    "block_heap: graph-retained uses of a live block are recorded until captures are forgotten") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 12, 256, {});
    block* const b = take(heap, 512);
    heap.keep(b, {});
    CHECK(b->waits_for().empty());
    heap.keep(b, tags{{0x100000, 0x100100, tag::captured, 2}});
    CHECK(*b->waits_for().begin() == tag{0x100000, 0x100100, tag::captured, 2});
    heap.end_captures();
    CHECK(b->waits_for().empty());
    heap.keep(b, tags{{0x100000, 0x100100, tag::captured, 2}});
    heap.give(b, never);
    block const* const all = heap.chunks()[0].first;
    CHECK(all->after == nullptr);
    CHECK(*all->waits_for().begin() == tag{0x100000, 0x100100, tag::captured, 2});
    heap.end_captures();
    CHECK(all->waits_for().empty());
}

TEST_CASE("block_heap: a chunk that can grow always ends with a free block, which is taken last") {
    block_heap heap{true};
    heap.add(at(0x100000), 4096, 256, {});
    block* const a = take(heap, 1024);
    block* const b = take(heap, 1024);
    CHECK(a->address == 0x100000);
    CHECK(end_of_chunk(heap)->bytes == 2048);
    give(heap, a, {}, always);
    // The hole is used, although the end of the chunk is larger.
    CHECK(take(heap, 512)->address == 0x100000);
    CHECK(take(heap, 1024)->address == 0x100800);
    block* const last = take(heap, 1024);
    CHECK(last->address == 0x100c00);
    CHECK(end_of_chunk(heap) != last);
    CHECK(end_of_chunk(heap)->bytes == 0);
    CHECK(end_of_chunk(heap)->now == block::state::free);
    CHECK(heap.largest_free() == 512);
    CHECK(take(heap, 1024) == nullptr);
    CHECK(sound(heap));
    give(heap, last, tags{{last->address, last->end(), 1, 0}}, never);
    CHECK(end_of_chunk(heap)->address == 0x100c00); // they are merged and have pending uses
    CHECK(end_of_chunk(heap)->slot == 0);
    CHECK(sound(heap));
    give(heap, b, {}, always);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: the chunk that needs the fewest bytes grows, and is not used until it has") {
    block_heap heap{true};
    heap.add(at(0x200000), 8192, 256, {});
    heap.add(at(0x100000), 4096, 256, {}); // examined first
    auto const m = heap.begin_growth(12288, 256, clean);
    CHECK(m.base == at(0x200000));
    CHECK(m.bytes == 8192);
    CHECK(m.by == 4096);
    CHECK(heap.chunks()[heap.idle_chunk(clean)].base == at(0x100000)); // the larger chunk is busy
    auto const second = heap.begin_growth(12288, 256, clean);
    CHECK(second.base == at(0x100000));
    CHECK(second.by == 8192);
    CHECK(heap.begin_growth(12288, 256, clean).base == nullptr);
    CHECK(heap.idle_chunk(clean) == heap.chunks().size());
    block* const b = take(heap, 8192); // existing memory can be allocated during the growth
    CHECK(b->address == 0x200000);
    grow(heap, m, 65536);
    CHECK(take(heap, 65536)->address == 0x202000);
    grow(heap, second, 0); // that chunk did not grow
    CHECK(heap.chunks().reserved() == 4096 + 8192 + 65536);
    CHECK(heap.chunks()[heap.idle_chunk(clean)].base == at(0x100000));
    CHECK(sound(heap));
}

TEST_CASE("block_heap: growth respects the alignment, and an impossible growth is refused") {
    block_heap heap{true};
    heap.add(at(0x100000), 4096, 256, {});
    take(heap, 256);
    CHECK(heap.begin_growth(256, 256, clean).base == nullptr); // it has room
    CHECK(heap.begin_growth(unsatisfiable - 255, 256, clean).base == nullptr);
    auto const m = heap.begin_growth(4096, 4096, clean);
    CHECK(m.by == 4096);
    grow(heap, m, m.by);
    CHECK(take(heap, 4096, 4096)->address == 0x101000);
    CHECK(end_of_chunk(heap)->bytes == 0);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: while a chunk's end is waited for, its new memory is unavailable") {
    block_heap heap{true};
    heap.add(at(0x100000), 8192, 256, {});
    block* const held = take(heap, 4096);
    block* const b    = take(heap, 4096);
    give(heap, b, tags{{b->address, b->end(), 1, 0}}, never);
    auto const m = heap.begin_growth(8192, 256, clean);
    CHECK(m.by == 4096);
    grow(heap, m, 4096);
    tags const waits = end_of_chunk(heap)->waits_for();
    CHECK(waits.within(0x101000, 0x102000).begin()->end == 0x102000);
    CHECK(waits.within(0x102000, 0x103000).empty());
    auto const part = heap.find(4096, 256, clean, false);
    CHECK(part.start == 0x102000); // behind the pending memory
    CHECK(part.cost == availability::ready);
    CHECK(heap.find(8192, 256, clean, false).cost == availability::needs_wait);
    give(heap, held, {}, always);
    CHECK(heap.chunks()[0].idle());
}

TEST_CASE("block_heap: a chunk grows past memory that a captured graph uses") {
    struct {
        availability operator()(tags const& t) const {
            return t.empty() ? availability::ready : availability::unavailable;
        }
        availability operator()(std::size_t, std::uint64_t) const {
            return availability::unavailable;
        }
    } const kept;
    block_heap heap{true};
    heap.add(at(0x100000), 4096, 256, tags{{0x100000, 0x101000, tag::captured, 0}});
    CHECK(heap.find(1024, 256, kept, true).where == nullptr);
    auto m = heap.begin_growth(1024, 256, kept); // all of it is unavailable
    CHECK(m.by == 1024);
    grow(heap, m, m.by);
    m = heap.begin_growth(4096, 256, kept); // the new part is available
    CHECK(m.by == 3072);
    grow(heap, m, m.by);
    heap.reserve();
    auto const place = heap.find(4096, 256, kept, false);
    CHECK(place.start == 0x101000);
    heap.take(place, 4096);
    CHECK(sound(heap));
}

TEST_CASE(
    "block_heap: a chunk grows correctly if no node is left for the pending uses of its end") {
    block_heap heap{true};
    heap.add(at(0x100000), 1 << 20, 256, {});
    // Every second free merges the uses of its neighbours into a use_node.
    std::vector<block*> pieces;
    for (std::size_t i = 0; i < 2000; ++i) { pieces.push_back(take(heap, 256)); }
    auto const end = heap.begin_growth(2 << 20, 256, clean);
    heap.take(heap.find(end_of_chunk(heap)->bytes, 256, clean, true), end_of_chunk(heap)->bytes);
    block* const last = heap.live(at(0x100000 + 2000 * 256));
    heap.hold(last, tags{{last->address, last->end(), 7, 5}});
    heap.give(last, never);
    for (std::size_t i = 0; i + 3 < pieces.size(); i += 4) {
        for (std::size_t const j : {i, i + 1}) {
            heap.hold(pieces[j], tags{{pieces[j]->address, pieces[j]->end(), 1, j - i}});
            heap.give(pieces[j], never);
        }
    }
    grow(heap, end, end.by);
    CHECK(sound(heap));
    // Now all of the end has a pending use, and not less.
    tags const waits = end_of_chunk(heap)->waits_for();
    CHECK_FALSE(waits.within(last->address, last->address + 256).empty());
    CHECK(waits.begin()->slot == 5);
    heap.coalesce_pending(always);
    CHECK(end_of_chunk(heap)->slot == block::nobody);
}

TEST_CASE("block_heap: random blocks in chunks that grow agree with a model") {
    std::mt19937_64 random{23};
    block_heap      heap{true};
    std::size_t     model[2] = {65536, 65536}; // the sizes of the chunks
    auto const      base     = [](std::size_t i) { return at(0x10000000 + i * 0x10000000); };
    for (std::size_t i = 0; i < 2; ++i) { heap.add(base(i), model[i], 256, {}); }
    std::vector<block*> out;
    std::size_t         live = 0;
    for (int i = 0; i < 100000; ++i) {
        auto const dice = random() % 16;
        if (dice < 7) {
            std::size_t const bytes     = 256 * (1 + random() % (random() % 8 == 0 ? 100 : 8));
            std::size_t const alignment = std::size_t{256} << random() % 5;
            block*            b         = take(heap, bytes, alignment);
            if (b == nullptr) {
                auto const m = heap.begin_growth(bytes, alignment, clean);
                if (m.base == nullptr) { FAIL("nobody can grow"); }
                std::size_t const by = (m.by + 4095) / 4096 * 4096;
                grow(heap, m, by);
                model[m.base == base(1)] += by;
                heap.reserve();
                b = heap.take(heap.find(bytes, alignment, clean, true), bytes);
            }
            if (b->bytes != bytes || b->address % alignment != 0) { FAIL("wrong block"); }
            live += bytes;
            out.push_back(b);
        } else if (dice < 15 && !out.empty()) {
            std::size_t const index = random() % out.size();
            block* const      b     = out[index];
            live -= b->bytes;
            bool const pending = random() % 2 == 0;
            give(heap, b, pending ? tags{{b->address, b->end(), 1, random() % 6}} : tags{}, never);
            out[index] = out.back();
            out.pop_back();
        } else {
            if (random() % 8 == 0) { heap.coalesce_pending(always); }
        }
        if (i % 500 == 0) {
            CHECK(sound(heap));
            CHECK(heap.chunks().reserved() == model[0] + model[1]);
            CHECK(bytes_free(heap) == model[0] + model[1] - live);
            for (std::size_t c = 0; c < 2; ++c) {
                CHECK(end_of_chunk(heap, c)->now == block::state::free);
                CHECK(end_of_chunk(heap, c)->end() == 0x10000000 * (c + 1) + model[c]);
            }
        }
    }
    for (block* const b : out) { give(heap, b, {}, always); }
    heap.coalesce_pending(always);
    for (auto const& c : heap.chunks()) { CHECK(c.idle()); }
    CHECK(sound(heap));
}

TEST_CASE("block_heap: a block found without a search is split at its front, and the rest stays") {
    block_heap heap;
    // The heap has no memory, and nothing was reserved.
    CHECK(heap.take_quick(256, 0, clean) == nullptr);
    heap.add(at(0x100000), 16 * 256, 256, {});
    heap.reserve();
    // The first block of a chunk keeps its use_node.
    block* const first = heap.take_quick(256, 0, clean);
    REQUIRE(first != nullptr);
    CHECK(heap.chunks()[0].first == first);
    block* const second = heap.take_quick(2 * 256, 0, clean);
    CHECK(second->address == 0x100000 + 256);
    CHECK(second->before == first);
    CHECK(second->after->before == second);
    CHECK(heap.largest_free() == 13 * 256);
    CHECK(heap.take_quick(14 * 256, 0, clean) == nullptr);
    CHECK(heap.take_quick(13 * 256, 0, clean)->address == 0x100000 + 3 * 256);
    CHECK(heap.take_quick(256, 0, clean) == nullptr);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: without a search a stream gets memory of its own or without a use") {
    block_heap heap;
    heap.add(at(0x100000), 16 * 256, 256, tags{{0x100000, 0x101000, 3, 1}});
    heap.reserve();
    CHECK(heap.take_quick(256, 2, clean) == nullptr);
    CHECK(heap.take_quick(256, 1, clean) != nullptr);
    block* rest = heap.chunks()[0].first->after;
    block_tags::keep_for_capture(rest, 1, 3);
    CHECK(heap.take_quick(256, 1, clean) == nullptr); // a graph may be using it
}

TEST_CASE("block_heap: a freed block coalesces with both neighbours, whichever keeps the node") {
    for (unsigned order = 0; order < 6; ++order) {
        CAPTURE(order);
        block_heap heap;
        heap.add(at(0x100000), 64 * 256, 256, {});
        block* const first = take(heap, 256);
        block*       three[3];
        for (auto& b : three) { b = take(heap, 5 * 256); }
        take(heap, 256);
        unsigned const orders[6][3]{{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        for (unsigned const i : orders[order]) {
            give(heap, three[i], tags{{three[i]->address, three[i]->end(), i + 1, 0}}, never);
            CHECK(sound(heap));
        }
        block const* const joined = first->after;
        CHECK(joined->bytes == 15 * 256);
        CHECK(joined->epoch == 3);                                     // the latest
        CHECK(heap.find(15 * 256, 256, clean, true).where != nullptr); // and it is in its bin
        give(heap, first, tags{{first->address, first->end(), 1, 0}}, never);
        CHECK(heap.chunks()[0].first == first);
        CHECK(sound(heap));
    }
}

TEST_CASE("block_heap: the end of a chunk, quarantined and returned, coalesces with the block "
          "before it") {
    block_heap heap{true};
    heap.add(at(0x10000000), 128 * 4096, 256, {});
    block* const hole = take(heap, 100 * 4096);
    take(heap, 28 * 4096);
    heap.add(at(0x100000), 64 * 4096, 256, {});
    take(heap, 4096);
    block* const middle = take(heap, 8 * 4096);
    REQUIRE(middle->address == 0x100000 + 4096);
    block* end = nullptr;
    heap.set_aside([](block const& b) { return b.bytes != 55 * 4096; },
                   [&](block* b) {
                       end = b;
                       return false;
                   });
    REQUIRE(end != nullptr);
    give(heap, middle, {}, never); // into a bin
    CHECK(heap.give_again(end, never)->bytes == 63 * 4096);
    give(heap, hole, {}, never);
    CHECK(heap.find(8 * 4096, 256, clean, true).start == 0x10000000); // ends come after holes
    CHECK(take(heap, 100 * 4096) != nullptr);
    CHECK(take(heap, 8 * 4096)->address == 0x100000 + 4096);
    CHECK(sound(heap));
}

TEST_CASE(
    "block_heap: the first block of a chunk that coalesces with the next keeps the later epoch") {
    block_heap heap;
    heap.add(at(0x100000), 8 * 256, 256, {});
    block* const first  = take(heap, 256);
    block* const second = take(heap, 256);
    take(heap, 6 * 256);
    give(heap, second, tags{{second->address, second->end(), 5, 1}}, never);
    give(heap, first, tags{{first->address, first->end(), 3, 1}}, never); // it had rested
    CHECK(first->bytes == 2 * 256);
    CHECK(first->epoch == 5);
}

TEST_CASE("block_heap: a part is taken from the middle of a block although all nodes are in use") {
    block_heap heap;
    heap.add(at(0x100000), 1 << 20, 256, {});
    std::vector<block*> pieces;
    for (std::size_t i = 0; i < 2000; ++i) { pieces.push_back(take(heap, 256)); }
    for (std::size_t i = 0; i + 5 < pieces.size();
         i += 6) { // five of six blocks coalesce, if there is a use_node
        for (std::size_t j = 0; j < 5; ++j) {
            block* const b = pieces[i + j];
            if (j != 2) { block_tags::hold(b, {b->address, b->end(), 1, j}); }
            heap.give(b, never);
        }
    }
    block* const five = heap.chunks()[0].first;
    REQUIRE(five->bytes == 5 * 256);
    heap.reserve();
    // Two uses on either side.
    block* const middle = heap.take({five, five->address + 2 * 256}, 256);
    CHECK(sound(heap));
    auto const who = [](block const* b) {
        std::vector<std::size_t> slots;
        tags const               held = b->waits_for();
        for (tag const& t : held) { slots.push_back(t.slot); }
        return slots;
    };
    CHECK(who(middle->before) == std::vector<std::size_t>{0, 1});
    CHECK(who(middle->after) == std::vector<std::size_t>{3, 4});
}

TEST_CASE("block_heap: chunks that are added and removed reuse the same nodes") {
    block_heap    heap;
    std::uint64_t before = 0;
    for (int i = 0; i < 500; ++i) { // more often than notes are made at a time
        if (i == 10) { before = doubles::host_allocations(); }
        block* const b = heap.add(at(0x100000), 512, 256, tags{{0x100000, 0x100100, 1, 0}});
        CHECK(b->slot == block::several); // a part of it
        heap.remove(heap.idle_chunk([](auto const&...) { return availability::ready; }));
    }
    CHECK(doubles::host_allocations() == before);
}

TEST_CASE("block_heap: the pending uses of every byte agree with a model after any coalescing") {
    struct label {
        std::size_t   slot  = block::nobody;
        std::uint64_t epoch = 0;
    };
    constexpr std::uintptr_t base = 0x100000;
    for (std::size_t const granules : {std::size_t{tags::most}, std::size_t{60}}) {
        // Then no use spans memory that it does not cover.
        bool const exact = granules <= tags::most;
        for (bool const in_place : {false, true}) {
            std::mt19937_64     random{granules + in_place};
            block_heap          heap{in_place};
            std::vector<label>  model(granules);
            std::vector<block*> out;
            std::uint64_t       now = 1, done = 0, made = 0;
            auto const          over = [&](tag const& t) { return t.epoch <= done; };
            auto const cost = [&](std::size_t asker, std::size_t slot, std::uint64_t epoch) {
                if (slot == block::nobody || epoch <= done) { return availability::ready; }
                if (epoch == tag::captured) { return availability::unavailable; }
                return slot == asker ? availability::ready : availability::needs_wait;
            };
            auto const held_by   = [&](block const& b) { return &model[(b.address - base) / 256]; };
            auto const make_room = [&] {
                std::uint64_t const before = doubles::host_allocations();
                heap.reserve();
                made += doubles::host_allocations() - before;
            };
            heap.add(at(base), granules * 256, 256, {});
            for (int i = 0; i < 50000; ++i) {
                std::size_t const asker = random() % 3;
                struct {
                    std::size_t    asker;
                    decltype(cost) of;

                    availability operator()(std::size_t slot, std::uint64_t epoch) const {
                        return of(asker, slot, epoch);
                    }
                    availability operator()(tags const& held) const {
                        auto worst = availability::ready;
                        for (tag const& t : held) {
                            worst = std::max(worst, of(asker, t.slot, t.epoch));
                        }
                        return worst;
                    }
                } const price{asker, cost};
                auto const dice = random() % 64;
                if (dice < 32) {
                    std::size_t const bytes = 256 * (1 + random() % (random() % 4 == 0 ? 8 : 3));
                    auto              waits = availability::ready;
                    block*            b     = nullptr;
                    if (dice < 20) {
                        doubles::bombing armed{1};
                        b = heap.take_quick(bytes, asker, price);
                        if (armed.defuse()) { FAIL("a host allocation"); }
                    }
                    if (b == nullptr) {
                        (void)heap.was_all_freed();
                        make_room();
                        auto const place =
                            heap.find(bytes, 256U << random() % 2, price, dice % 2 == 0);
                        if (place.where == nullptr) { continue; }
                        waits = place.cost;
                        b     = heap.take(place, bytes);
                    }
                    for (std::size_t g = 0; g < bytes / 256; ++g) {
                        label& was = held_by(*b)[g];
                        if (cost(asker, was.slot, was.epoch) > waits) { FAIL("in use"); }
                        was = {};
                    }
                    out.push_back(b);
                } else if (dice < 60 && !out.empty()) {
                    std::size_t const index = random() % out.size();
                    block* const      b     = out[index];
                    out[index]              = out.back();
                    out.pop_back();
                    std::uint64_t const epoch = random() % 32 == 0 ? tag::captured : ++now;
                    std::size_t const   count = b->bytes / 256;
                    std::size_t const   part  = dice < 34 ? random() % (count + 1) : count;
                    label* const        held  = held_by(*b);
                    // The memory behind it is clean.
                    std::fill(held, held + part, label{asker, epoch});
                    tags who;
                    if (part != 0) {
                        who = tags{{b->address, b->address + part * 256, epoch, asker}};
                    }
                    if (part != 0 && part != count) { make_room(); }
                    doubles::bombing armed{1};
                    heap.hold(b, who);
                    heap.give(b, over);
                    if (armed.defuse()) { FAIL("a host allocation"); }
                } else if (dice == 60) {
                    std::vector<block*> aside;
                    heap.set_aside([&](block const&) { return random() % 2 == 0; },
                                   [&](block* b) {
                                       aside.push_back(b);
                                       return random() % 4 != 0;
                                   });
                    std::shuffle(aside.begin(), aside.end(), random);
                    for (block* const b : aside) { heap.give_again(b, over); }
                } else if (dice == 61) {
                    done = now - random() % (now - done + 1);
                    if (random() % 2 == 0) { heap.coalesce_pending(over); }
                } else if (dice == 62) {
                    heap.end_captures();
                    for (label& l : model) { l = l.epoch == tag::captured ? label{} : l; }
                } else if (dice == 63 && random() % 8 == 0) {
                    heap.keep_for_capture(asker, 0);
                    for (label& l : model) {
                        // Completed uses may have been dropped or not.
                        if (l.slot == asker && l.epoch > done) { l.epoch = tag::captured; }
                    }
                }
                std::size_t largest = 0;
                heap.chunks().for_each([&](block const& b) {
                    if (b.now == block::state::live) { return; }
                    largest           = std::max(largest, b.bytes);
                    label const* held = held_by(b);
                    tags const   all  = b.waits_for();
                    for (auto at = b.address; at != b.end(); at += 256, ++held) {
                        bool known = held->slot == block::nobody || held->epoch <= done;
                        for (tag const& t : all.within(at, at + 256)) {
                            bool const same = t.slot == held->slot;
                            known           = known || (same && t.epoch >= held->epoch &&
                                              tag::of_one_kind(t, {0, 0, held->epoch, t.slot}));
                            if (exact && held->slot == block::nobody) { known = false; }
                            if (exact && !same) { known = false; }
                        }
                        if (!known) { FAIL("wrongly noted in step " << i); }
                    }
                });
                block const* const last = end_of_chunk(heap);
                if (!sound(heap) || heap.chunks()[0].first->address != base ||
                    heap.largest_free() != largest ||
                    (in_place && last->now != block::state::free)) {
                    FAIL("not sound after step " << i);
                }
            }
            CHECK(made <= 4); // no reused use_node is lost
            for (block* const b : out) { heap.give(b, always); }
            heap.coalesce_pending(always);
            CHECK(heap.chunks()[0].idle());
        }
    }
}

TEST_CASE("block_heap: the rest of a block whose front is taken keeps exactly its own uses") {
    constexpr auto costs_nothing = [](auto const&...) { return availability::ready; };
    block_heap     heap;
    heap.add(at(0x100000), 16 * 256, 256, {});
    take(heap, 256);
    block* const low  = take(heap, 4 * 256);
    block* const high = take(heap, 4 * 256);
    take(heap, 7 * 256);
    give(heap, high, {}, never);
    give(heap, low, tags{{low->address, low->end(), 1, 1}}, never);
    block* b = heap.take_quick(4 * 256, 1, costs_nothing);
    CHECK(b->address == 0x100000 + 256);
    CHECK(b->after->slot == block::nobody);
    std::uint64_t before = 0;
    for (int i = 0; i < 500; ++i) { // more often than notes are made at a time
        if (i == 10) { before = doubles::host_allocations(); }
        std::uint64_t const epoch = 1 + static_cast<std::uint64_t>(i);
        give(heap, b, tags{{b->address, b->end(), epoch, 2}}, never);
        b = heap.take_quick(8 * 256, 2, costs_nothing);
        REQUIRE(b != nullptr);
        give(heap, b, tags{{b->address, b->end(), epoch, 2}}, never);
        b = heap.take_quick(4 * 256, 2, costs_nothing);
        give(heap, b, tags{{b->address, b->end(), epoch, 1}}, never);
        b = heap.take_quick(4 * 256, 1, costs_nothing);
        // One block contains all memory again.
        give(heap, b, tags{{b->address, b->end(), epoch, 2}}, never);
        block const* const whole = heap.chunks()[0].first->after;
        CHECK(whole->bytes == 8 * 256);
        CHECK(whole->slot == 2);
        b = heap.take_quick(4 * 256, 2, costs_nothing);
    }
    CHECK(doubles::host_allocations() == before);
    CHECK(sound(heap));
}

TEST_CASE(
    "block_heap: a block freed before a chunk's end coalesces with it and with free neighbours") {
    block_heap heap{true};
    heap.add(at(0x100000), 8 * 256, 256, {});
    block* const first  = take(heap, 256);
    block* const second = take(heap, 256);
    block* const third  = take(heap, 256);
    give(heap, second, {}, never);
    give(heap, third, {}, never);
    CHECK(first->after == end_of_chunk(heap));
    CHECK(end_of_chunk(heap)->bytes == 7 * 256);
    CHECK(sound(heap));
}

TEST_CASE("block_heap: without a free node, blocks that need no new one coalesce") {
    block_heap          heap{true};
    std::vector<block*> pieces;
    heap.add(at(0x100000), 1 << 20, 256, {});
    for (std::size_t i = 0; i < 2000; ++i) { pieces.push_back(take(heap, 256)); }
    block* const last = take(heap, end_of_chunk(heap)->bytes);
    heap.add(at(0x300000), 4096, 256, {});
    block* const  whole = take(heap, 4096);
    block* const  noted = pieces[1991];
    std::uint64_t all   = last->bytes;
    heap.reserve();
    tags parts{{noted->address, noted->address + 100, 1, 0}};
    CHECK(parts.merge(tags{{noted->address + 100, noted->end(), 1, 1}}, never));
    heap.hold(noted, parts);
    auto const give_back = [&](block* b, std::size_t slot) {
        block_tags::hold(b, {b->address, b->end(), 1, slot});
        heap.give(b, never);
    };
    for (std::size_t i = 0; i < 1980; i += 3) {
        give_back(pieces[i], 0);
        give_back(pieces[i + 1], 1);
    }
    REQUIRE(pieces[1977]->bytes == 256);              // it would need a use_node
    CHECK(heap.take_quick(256, 1, clean) == nullptr); // the slower path creates some
    give_back(pieces[1990], 2);
    heap.give(noted, never); // which has one
    CHECK(pieces[1990]->bytes == 512);
    give_back(last, 5);
    CHECK(end_of_chunk(heap)->bytes == all);
    CHECK(end_of_chunk(heap)->slot == 5);
    give_back(whole, 6);
    CHECK(heap.chunks()[1].idle());
    CHECK(sound(heap));
}

TEST_CASE(
    "block_heap: after all of many blocks are freed they are coalesced before the next request") {
    block_heap          heap;
    std::vector<block*> out;
    heap.add(at(0x100000), 1 << 16, 256, {});
    for (int i = 0; i < 64; ++i) { out.push_back(take(heap, 256)); }
    for (block* const b : out) { give(heap, b, {}, never); }
    heap.reserve();
    CHECK(heap.take_quick(256, 0, clean) == nullptr);
    CHECK(heap.was_all_freed());
    CHECK_FALSE(heap.was_all_freed());
    CHECK(heap.take_quick(256, 0, clean) != nullptr);
}

TEST_CASE("block_heap: the empty end of a chunk waits for no stream") {
    block_heap heap{true};
    heap.add(at(0x100000), 4096, 256, tags{{0x100000, 0x101000, 5, 1}});
    heap.reserve();
    CHECK(heap.take_quick(4096, 1, clean) != nullptr);
    CHECK(end_of_chunk(heap)->bytes == 0);
    CHECK(end_of_chunk(heap)->slot == block::nobody);
}
