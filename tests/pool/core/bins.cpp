// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/bins.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

using namespace vram;
using namespace vram::detail;

static_assert(bins::of(256) == 0 && bins::of(512) == 32 && bins::of(768) == 48);
static_assert(bins::of(bins::largest) == bins::count - 1);

TEST_CASE(
    "bins: a larger size is never in an earlier bin, and sizes of one bin differ by at most 1/32") {
    std::size_t before = bins::of(bins::granule);
    for (std::size_t n = 2; n < 100000; ++n) {
        std::size_t const bin = bins::of(n * bins::granule);
        CHECK_UNARY(bin > before || (n > 64 && bin == before)); // the small ones: a size each
        CHECK_UNARY(bin == before || bin == before + 1 || n <= 32);
        before = bin;
    }
    for (std::size_t shift = 14; shift < 55; ++shift) {
        std::size_t const low = std::size_t{1} << shift;
        CHECK(bins::of(low) == bins::of(low + low / 32 - bins::granule));
        CHECK(bins::of(low) != bins::of(low + low / 32));
        CHECK(bins::of(low - bins::granule) + 1 == bins::of(low));
    }
}

TEST_CASE("bins: the next non-empty bin is found over any distance") {
    std::mt19937_64                                      random{3};
    bins                                                 all;
    std::map<std::size_t, std::set<block*>>              model;
    std::vector<std::pair<std::unique_ptr<block>, bool>> blocks(300);
    for (auto& [b, in] : blocks) {
        b        = std::make_unique<block>();
        b->bytes = (1 + (random() >> (16 + random() % 40))) / 256 * 256;
        if (b->bytes == 0) { b->bytes = 256; }
    }
    for (int i = 0; i < 50000; ++i) {
        auto& [b, in] = blocks[random() % blocks.size()];
        if (in) {
            all.remove(b.get());
            auto& set = model[bins::of(b->bytes)];
            set.erase(b.get());
            if (set.empty()) { model.erase(bins::of(b->bytes)); }
        } else {
            all.insert(b.get());
            model[bins::of(b->bytes)].insert(b.get());
        }
        in                     = !in;
        std::size_t const from = random() % (bins::count + 1);
        auto const        next = model.lower_bound(from);
        std::size_t const told = all.next(from);
        if (told != (next == model.end() ? bins::count : next->first)) { FAIL("differs at " << i); }
        if (told != bins::count && !next->second.contains(all.front(told))) { FAIL("wrong block"); }
    }
}

TEST_CASE("bins: the largest block is known, also after a move") {
    bins  a;
    block small, large, larger;
    small.bytes  = 256;
    large.bytes  = 1 << 20;
    larger.bytes = (1 << 20) + 256; // in the same bin
    CHECK(a.largest_block() == 0);
    a.insert(&larger);
    a.insert(&large);
    a.insert(&small);
    CHECK(a.largest_block() == larger.bytes);
    bins b{std::move(a)};
    CHECK(a.largest_block() == 0);
    CHECK(a.next(0) == bins::count);
    b.remove(&larger);
    CHECK(b.largest_block() == large.bytes);
}

TEST_CASE("bins: a block that changes its size is found in its new bin, and the largest are last") {
    bins  all;
    block small, large;
    small.bytes = 512;
    large.bytes = 1 << 20;
    all.insert(&small);
    CHECK(all.last() == bins::of(512));
    all.insert(&large);
    CHECK(all.last() == bins::of(1 << 20));
    all.resize(&large, (1 << 20) + 256); // the same bin
    CHECK(large.bytes == (1 << 20) + 256);
    CHECK(all.front(bins::of(1 << 20)) == &large);
    all.resize(&large, 4096);
    CHECK(all.last() == bins::of(4096));
    CHECK(all.front(bins::of(4096)) == &large);
    CHECK(all.largest_block() == 4096);
    all.resize(&small, 8192);
    CHECK(all.next(0) == bins::of(4096));
    CHECK(all.last() == bins::of(8192));
}
