// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/free_blocks.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <vector>

#include <cstddef>
#include <cstdint>
#include <utility>

using namespace vram;
using namespace vram::detail;

namespace {

constexpr std::size_t used_by_graph = 9; ///< the slot whose memory is unavailable
/// One wait for the memory of any stream.
struct {
    availability operator()(tags const& held) const {
        auto worst = availability::ready;
        for (tag const& t : held) {
            availability const one = (*this)(t.slot, t.epoch);
            worst                  = one > worst ? one : worst;
        }
        return worst;
    }
    availability operator()(std::size_t slot, std::uint64_t) const {
        return slot == used_by_graph ? availability::unavailable : availability::needs_wait;
    }
} constexpr one_wait{};

/// A free block. `next` is the block behind it, if any: only the last block of a chunk can grow.
block free_piece(std::uintptr_t address, std::size_t bytes, block* after = nullptr) {
    block b;
    b.address = address;
    b.bytes   = bytes;
    b.after   = after;
    b.now     = block::state::free;
    return b;
}

/// Parts of a block wait for different streams.
void wait_in_parts(block& b, use_node& note, tag const& first, tag const& second) {
    note.what = tags{first};
    CHECK(note.what.merge(tags{second}, [](tag const&) { return false; }));
    b.slot = block::several;
    b.note = &note;
}

} // namespace

TEST_CASE("free_blocks: the best fit is taken, at any position of a chunk") {
    free_blocks all;
    block       large = free_piece(0x100000, 8192), tight = free_piece(0x200000, 4096);
    all.insert(&large);
    all.insert(&tight);
    CHECK_FALSE(all.is_tail(&large)); // nothing grows here
    auto const place = all.find(4096, 256, one_wait, false);
    CHECK(place.where == &tight);
    CHECK(place.start == 0x200000);
    CHECK(place.cost == availability::ready);
    all.remove(&tight);
    CHECK(all.find(4096, 256, one_wait, false).where == &large);
    CHECK(all.find(8192 + 256, 256, one_wait, false).where == nullptr);
    CHECK(all.largest_block() == 8192);
    all.remove(&large);
    CHECK(all.largest_block() == 0);
}

TEST_CASE("free_blocks: the end of a chunk is taken last, even if it fits better") {
    free_blocks all{true};
    block       next;
    block       end  = free_piece(0x100000, 4096);
    block       hole = free_piece(0x200000, 65536, &next);
    all.insert(&end);
    all.insert(&hole);
    CHECK(all.is_tail(&end));
    CHECK_FALSE(all.is_tail(&hole));
    CHECK(all.find(4096, 256, one_wait, false).where == &hole);
    all.remove(&hole);
    CHECK(all.find(4096, 256, one_wait, false).where == &end);
}

TEST_CASE(
    "free_blocks: the end of a chunk is better than a wait, and a wait better than a refusal") {
    free_blocks all{true};
    block       next;
    block       end  = free_piece(0x100000, 4096);
    block       hole = free_piece(0x200000, 4096, &next);
    hole.slot        = 1;
    all.insert(&end);
    all.insert(&hole);
    CHECK(all.find(4096, 256, one_wait, false).where == &end);
    all.remove(&end);
    auto const place = all.find(4096, 256, one_wait, false);
    CHECK(place.where == &hole);
    CHECK(place.cost == availability::needs_wait);
    hole.slot = used_by_graph;
    CHECK(all.find(4096, 256, one_wait, true).where == nullptr);
}

TEST_CASE("free_blocks: a better fit that needs a wait is reported beside one that is ready") {
    free_blocks all;
    block       tight = free_piece(0x100000, 4096), large = free_piece(0x200000, 1 << 20);
    tight.slot = 1;
    all.insert(&tight);
    all.insert(&large);
    auto const place = all.find(4096, 256, one_wait, false);
    CHECK(place.where == &large);
    CHECK(place.tighter == &tight);
    tight.slot = used_by_graph; // it is unavailable
    CHECK(all.find(4096, 256, one_wait, false).tighter == nullptr);
    tight.slot = 1;
    all.resize(&large, 4096);
    CHECK(all.find(4096, 256, one_wait, false).where == &large);
    // The other block is not smaller.
    CHECK(all.find(4096, 256, one_wait, false).tighter == nullptr);
}

TEST_CASE(
    "free_blocks: no block is taken without a search if one of another stream would be better") {
    free_blocks all;
    block       other = free_piece(0x1000000, 1 << 20), own = free_piece(0x2000000, 4 << 20);
    other.slot = 1;
    own.slot   = 2;
    all.insert(&other);
    all.insert(&own);
    CHECK(all.quick(1 << 20, 2, one_wait) == nullptr);
    CHECK(all.quick(1 << 20, 1, one_wait) == &other);
    CHECK(all.quick(2 << 20, 2, one_wait) == &own);
}

TEST_CASE("free_blocks: an empty end is an end, and holds no block") {
    free_blocks all{true};
    block       empty = free_piece(0x100000, 0), end = free_piece(0x200000, 512);
    all.insert(&empty);
    CHECK(all.find(256, 256, one_wait, true).where == nullptr);
    CHECK(all.largest_block() == 0);
    all.insert(&end);
    CHECK(all.largest_block() == 512);
    std::size_t ends = 0;
    all.for_each_tail([&](block const*) { ++ends; });
    CHECK(ends == 2);
    all.remove(&empty);
    CHECK(all.find(512, 256, one_wait, true).where == &end);
    CHECK(all.find(512, 1 << 20, one_wait, true).where == &end);
    // The block contains no such address.
    CHECK(all.find(512, 1 << 22, one_wait, true).where == nullptr);
}

TEST_CASE("free_blocks: a part that is ready is found at the front or the back of a block") {
    block    next;
    block    b = free_piece(0x100000, 4096, &next);
    use_node note;
    wait_in_parts(b, note, {0x100000, 0x100400, 1, 0}, {0x100400, 0x100800, 1, 1});
    free_blocks all;
    all.insert(&b);
    auto const back = all.find(1024, 256, one_wait, false);
    CHECK(back.cost == availability::ready);
    CHECK(back.start == 0x100c00);
    note.what        = tags{{0x100800, 0x101000, 1, 0}};
    auto const front = all.find(1024, 256, one_wait, false);
    CHECK(front.cost == availability::ready);
    CHECK(front.start == 0x100000);
    CHECK(all.find(4096, 256, one_wait, false).cost == availability::needs_wait);
}

TEST_CASE("free_blocks: in the end of a chunk the lowest ready part is taken") {
    block    end = free_piece(0x100000, 8192);
    use_node note;
    wait_in_parts(end, note, {0x100000, 0x100400, 1, 0}, {0x100400, 0x100800, 1, 1});
    free_blocks all{true};
    all.insert(&end);
    auto const clean = all.find(1024, 256, one_wait, false);
    CHECK(clean.cost == availability::ready);
    CHECK(clean.start == 0x100800);
    auto const aligned = all.find(1024, 4096, one_wait, false);
    CHECK(aligned.cost == availability::ready);
    CHECK(aligned.start == 0x101000);
    CHECK(all.find(8192, 256, one_wait, false).cost ==
          availability::needs_wait); // the whole block, with the parts that need a wait
}

TEST_CASE("free_blocks: a captured graph's use of a chunk's end does not exclude the rest") {
    block    end = free_piece(0x100000, 4096);
    use_node note;
    note.what = tags{{0x100000, 0x100400, tag::captured, used_by_graph}};
    end.slot  = block::several;
    end.note  = &note;
    free_blocks all{true};
    all.insert(&end);
    auto const place = all.find(3072, 256, one_wait, false);
    CHECK(place.where == &end);
    CHECK(place.start == 0x100400);
    CHECK(place.cost == availability::ready);
    CHECK(all.find(4096, 256, one_wait, true).where == nullptr);
}

TEST_CASE("free_blocks: a search of all blocks finds the one that is ready") {
    free_blocks all;
    block       next;
    block       dear[64];
    block       clean = free_piece(0x900000, 4096, &next);
    all.insert(&clean); // the block inserted first is examined last
    for (std::size_t i = 0; i < 64; ++i) {
        dear[i]      = free_piece(0x100000 + i * 0x2000, 4096, &next);
        dear[i].slot = 1;
        all.insert(&dear[i]);
    }
    CHECK(all.find(4096, 256, one_wait, false).cost == availability::needs_wait);
    auto const place = all.find(4096, 256, one_wait, true);
    CHECK(place.cost == availability::ready);
    CHECK(place.where == &clean);
}

TEST_CASE("free_blocks: a move takes bins and ends along") {
    free_blocks a{true};
    block       next;
    block       end = free_piece(0x100000, 4096), hole = free_piece(0x200000, 512, &next);
    a.insert(&end);
    a.insert(&hole);
    free_blocks b{std::move(a)};
    CHECK(a.largest_block() == 0);
    CHECK(a.find(256, 256, one_wait, true).where == nullptr);
    CHECK(b.find(512, 256, one_wait, false).where == &hole);
    CHECK(b.find(4096, 256, one_wait, false).where == &end);
    b.remove(&end);
    b.remove(&hole);
    CHECK(b.find(256, 256, one_wait, true).where == nullptr);
}

TEST_CASE(
    "free_blocks: without a search the newest block of the bin, or of the next bin, is found") {
    free_blocks all{true};
    block       a = free_piece(0x100000, 1 << 20), b = free_piece(0x300000, (1 << 20) + 256),
          c = free_piece(0x500000, 8 << 20), end = free_piece(0x900000, 64 << 20);
    block behind;
    for (block* each : {&b, &a, &c}) {
        each->after = &behind;
        all.insert(each);
    }
    all.insert(&end);
    CHECK(all.quick(1 << 20, 0, one_wait) == &a);
    CHECK(all.quick((1 << 20) + 256, 0, one_wait) ==
          &c); // `a` is too small, and comes before `b` in their bin
    all.remove(&b);
    all.insert(&b);
    CHECK(all.quick((1 << 20) + 256, 0, one_wait) == &b);
    CHECK(all.quick((1 << 20) + 512, 0, one_wait) == &c);
    CHECK(all.quick(9 << 20, 0, one_wait) == &end); // the end of a chunk is examined last
    CHECK(all.quick(65 << 20, 0, one_wait) == nullptr);
    b.slot = 4; // of another stream
    CHECK(all.quick(1 << 20, 0, one_wait) == nullptr);
    CHECK(all.quick(1 << 20, 4, one_wait) == &b);
    b.epoch = tag::captured;
    CHECK(all.quick(1 << 20, 4, one_wait) == nullptr);
    use_node note;
    wait_in_parts(b, note, {b.address, b.address + 256, 1, 4}, {b.address + 256, b.end(), 1, 5});
    CHECK(all.quick(1 << 20, 4, one_wait) == nullptr); // only a search by `find` examines parts
    all.remove(&b);
    CHECK(all.quick(1 << 20, 4, one_wait) == &a);
    c.unbacked = true;
    CHECK(all.quick(2 << 20, 0, one_wait) == &end); // memory is elsewhere
    end.unbacked = true;
    CHECK(all.quick(2 << 20, 0, one_wait) == nullptr);
    CHECK(all.quick(65 << 20, 0, one_wait) == nullptr);
}

TEST_CASE(
    "free_blocks: an unbacked block is used where it is backed, and after fully backed blocks") {
    constexpr std::size_t page = 4096;
    page_book             pages{page};
    free_blocks           all{true};
    block                 behind;
    pages.add(reinterpret_cast<void*>(0x100000), 64 * page);
    pages.set({0, 8, 16}, false);
    all.know_memory(&pages);
    block part = free_piece(0x100000, 16 * page), whole = free_piece(0x120000, 16 * page),
          rest    = free_piece(0x130000, 16 * page);
    part.unbacked = true;
    for (block* each : {&whole, &part}) {
        each->after = &behind;
        all.insert(each);
    }
    all.insert(&rest);
    CHECK(all.quick(8 * page, 0, one_wait) == &whole); // although `part` was inserted last
    CHECK(all.find(16 * page, 256, one_wait, true).where == &whole);
    all.remove(&whole);
    CHECK(all.quick(8 * page, 0, one_wait) == &part);
    CHECK(all.quick(8 * page + 256, 0, one_wait) == &rest); // past it
    CHECK(all.find(8 * page, 256, one_wait, true).where == &part);
    CHECK(all.find(8 * page + 256, 256, one_wait, true).where == &rest);
    std::vector<block*> met;
    all.for_each_from(16 * page, [&](block* b) { met.push_back(b); });
    CHECK(met == std::vector<block*>{&part, &rest});
    met.clear();
    all.for_each_from(16 * page + 256, [&](block* b) { met.push_back(b); });
    CHECK(met.empty());
    all.resize(&rest, 4 * page);
    CHECK(all.quick(8 * page + 256, 0, one_wait) == nullptr); // which is too small now
    all.resize(&rest, 16 * page);
    rest.unbacked = true;
    pages.set({0, 48, 49}, false);
    CHECK(all.quick(8 * page + 256, 0, one_wait) == nullptr);
    all.know_memory(nullptr); // then unbacked memory is unknown
    CHECK(all.quick(8 * page, 0, one_wait) == nullptr);
}

TEST_CASE("free_blocks: an unbacked block stays behind the others if its size changes") {
    free_blocks all{true};
    block       end  = free_piece(0x900000, 0);
    block       full = free_piece(0x100000, 4096, &end), lacks = free_piece(0x200000, 4096, &end);
    lacks.unbacked = true;
    for (block* each : {&end, &full, &lacks}) { all.insert(each); }
    CHECK(all.quick(4096, 0, one_wait) == &full);
    all.resize(&lacks, 1 << 20);
    all.resize(&lacks, 4096);
    CHECK(all.quick(4096, 0, one_wait) == &full);
}

TEST_CASE("free_blocks: instead of a wait, the largest block is searched for a ready part") {
    free_blocks        all;
    std::vector<block> small(64, free_piece(0x100000, 4096));
    for (std::size_t i = 0; i < small.size(); ++i) {
        small[i].bytes += i * 4096;
        small[i].slot = 1;
        all.insert(&small[i]);
    }
    block    ample = free_piece(0x40000000, 1 << 30);
    use_node note;
    wait_in_parts(ample, note, {ample.address, ample.address + 4096, 1, 1},
                  {ample.end() - 8192, ample.end() - 4096, 1, 2});
    all.insert(&ample);
    auto const place = all.find(4096, 256, one_wait, false);
    CHECK(place.where == &ample);
    CHECK(place.cost == availability::ready);
}

TEST_CASE("free_blocks: without a search the front of a block is used, independent of the uses "
          "behind it") {
    struct {
        availability operator()(tags const&) const { return availability::needs_wait; }
        availability operator()(std::size_t slot, std::uint64_t) const {
            return slot == 4 ? availability::ready : availability::needs_wait;
        }
    } const own; // of the stream in slot 4
    block    next;
    block    b = free_piece(0x100000, 4096, &next);
    use_node note;
    wait_in_parts(b, note, {0x100000, 0x100200, 1, 4}, {0x100200, 0x100800, 1, 5});
    free_blocks all;
    all.insert(&b);
    CHECK(all.quick(256, 4, own) == &b);
    CHECK(all.quick(512, 4, own) == &b);
    CHECK(all.quick(768, 4, own) == nullptr);
    b.unbacked = true;
    CHECK(all.quick(512, 4, own) == nullptr);
    b.unbacked = false;
    b.slot     = 4; // all of it is ready for every stream
    CHECK(all.quick(4096, 7, own) == &b);
    b.slot = 5;
    CHECK(all.quick(4096, 7, own) == nullptr);
}
