// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slab_heap.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

/// Requires that every block is in one place, and that the counts agree.
bool counts_agree(slab_heap const& heap) {
    std::size_t out = 0, all = 0;
    for (slab_heap::chunk const* c : heap.chunks()) {
        std::size_t here = 0, clean = 0, bits = 0;
        for (auto const& n : c->entries) {
            here += n.at == slab_heap::place::live;
            clean += n.at == slab_heap::place::clean;
        }
        for (std::uint64_t word : c->map) {
            for (; word != 0; word &= word - 1) { ++bits; }
        }
        if (here != c->live || clean != c->clean || bits != clean) { return false; }
        out += here;
        all += c->entries.size();
    }
    return out == heap.blocks_live() && all - out == heap.blocks_free();
}

} // namespace

TEST_CASE("slab_heap: the lowest clean block is taken first, and found by its address") {
    slab_heap heap{3000}; // 3072: twelve granules
    CHECK(heap.stride() == 3072);
    CHECK(heap.alignment() == 1024);
    CHECK(heap.take_clean() == nullptr);
    heap.add(at(0x100000), 100 * 3072, nullptr);
    for (std::size_t i = 0; i < 100; ++i) {
        auto* const n = heap.take_clean();
        CHECK(n->address == at(0x100000 + i * 3072));
        CHECK(heap.find(n->address) == n);
        CHECK(heap.find(at(0x100000 + i * 3072 + 256)) == nullptr);
    }
    CHECK(heap.take_clean() == nullptr);
    CHECK(heap.find(at(0x100000 + 100 * 3072)) == nullptr);
    CHECK(heap.find(at(0x100000 - 3072)) == nullptr);
    heap.give_clean(heap.find(at(0x100000 + 70 * 3072)));
    heap.give_clean(heap.find(at(0x100000 + 3 * 3072)));
    CHECK(heap.find(at(0x100000 + 3 * 3072)) == nullptr); // it is not live
    CHECK(heap.take_clean()->address == at(0x100000 + 3 * 3072));
    CHECK(heap.take_clean()->address == at(0x100000 + 70 * 3072));
    CHECK(counts_agree(heap));
}

TEST_CASE(
    "slab_heap: a stream's newest block, another's oldest, and completed blocks become clean") {
    slab_heap heap{256};
    heap.reserve_slot(2);
    heap.add(at(0x1000), 8 * 256, nullptr);
    slab_heap::entry* blocks[8];
    for (auto& n : blocks) { n = heap.take_clean(); }
    for (std::uint64_t i = 0; i < 6; ++i) { heap.give(blocks[i], 2, i / 2 + 1); }
    CHECK(heap.take_own(0) == nullptr);
    CHECK(heap.take_own(7) == nullptr);
    CHECK(heap.take_own(2) == blocks[5]);
    CHECK(heap.oldest(2) == blocks[0]);
    CHECK(heap.take(heap.oldest(2)) == blocks[0]);
    CHECK(heap.oldest(2) == blocks[1]);
    heap.collect_complete(
        [](std::size_t slot, std::uint64_t epoch) { return slot == 2 && epoch <= 2; });
    CHECK(heap.oldest(2) == blocks[4]);
    CHECK(heap.take_clean() == blocks[1]);
    heap.take(heap.oldest(2));
    CHECK(heap.oldest(2) == nullptr);
    heap.give(blocks[4], 2, 9);
    auto* const first = heap.take(heap.oldest(2));
    heap.give(blocks[5], 2, 10);
    heap.give_oldest(first, 2, 9);
    CHECK(heap.oldest(2) == first);
    CHECK(heap.take_own(2) == blocks[5]);
    CHECK(counts_agree(heap));
}

TEST_CASE("slab_heap: graph-retained blocks belong to their capture until it is forgotten") {
    slab_heap heap{256};
    heap.reserve_slot(0);
    heap.add(at(0x1000), 2 * 256, nullptr);
    auto* const a = heap.take_clean();
    auto* const b = heap.take_clean();
    heap.retain(a, 0);
    heap.retain(b, 0);
    CHECK(heap.take_own(0) == nullptr);
    CHECK(heap.oldest(0) == nullptr);
    CHECK(heap.take_retained(0) == b);
    heap.retain(b, 0);
    heap.collect_complete([](std::size_t, std::uint64_t) { return true; });
    CHECK(heap.take_clean() == nullptr);
    heap.give(heap.take_retained(0), 0, 4);
    heap.end_captures();
    CHECK(heap.take_retained(0) == nullptr);
    CHECK(heap.newest(0) == b);
    CHECK(heap.take_clean() == a);
    CHECK(heap.take_clean() == nullptr);
    heap.collect_complete([](std::size_t, std::uint64_t epoch) { return epoch == 4; });
    CHECK(heap.take_clean() == b);
    CHECK(counts_agree(heap));
}

TEST_CASE("slab_heap: quarantined blocks are unavailable until captures are forgotten") {
    slab_heap heap{256};
    heap.reserve_slot(1);
    heap.add(at(0x1000), 4 * 256, nullptr);
    slab_heap::entry* n[4]{};
    for (auto& each : n) { each = heap.take_clean(); }
    for (std::size_t const i : {1, 3}) {
        heap.retain(n[i], 0);
        CHECK(heap.take_retained(0) == n[i]);
        CHECK(n[i]->in_graph);
    }
    heap.give(n[0], 1, 6);
    heap.quarantine(n[1], 1, 7);
    heap.give(n[2], 1, 8);
    heap.quarantine(n[3], 0, 0); // no stream uses it
    CHECK_FALSE(n[1]->in_graph);
    CHECK(heap.take_retained(0) == nullptr);
    CHECK(heap.take_retained(1) == nullptr);
    CHECK(heap.take_clean() == nullptr);
    CHECK(heap.take_own(1) == n[2]);
    heap.give(n[2], 1, 8);
    slab_heap moved{std::move(heap)};
    moved.end_captures();
    CHECK(moved.take_clean() == n[3]);
    for (std::size_t const i : {0, 1, 2}) { // sorted by epoch, in whatever order they were freed
        CHECK(moved.oldest(1) == n[i]);
        CHECK(moved.take(n[i]) == n[i]);
    }
    CHECK(moved.oldest(1) == nullptr);
    CHECK(counts_agree(moved));
}

TEST_CASE("slab_heap: blocks that are live when captures are forgotten are borrowed no longer") {
    slab_heap heap{256};
    heap.reserve_slot(0);
    heap.add(at(0x1000), 256, nullptr);
    auto* const n = heap.take_clean();
    CHECK_FALSE(n->in_graph);
    heap.retain(n, 0);
    CHECK(heap.take_retained(0) == n);
    CHECK(n->in_graph);
    heap.end_captures();
    CHECK_FALSE(n->in_graph);
}

TEST_CASE("slab_heap: adjacent chunks with any number of blocks are distinguished") {
    slab_heap      heap{256 * 5};
    std::uintptr_t where = 0x7000100;
    for (std::size_t i = 0; i < 40; ++i) {
        std::size_t const count = i % 3 == 0 ? heap.most() : 1 + i % 7;
        heap.add(at(where), count * heap.stride(), nullptr);
        where += count * heap.stride() + (i % 2) * 256;
    }
    std::vector<slab_heap::entry*> out;
    while (auto* const n = heap.take_clean()) { out.push_back(n); }
    for (auto* const n : out) {
        if (heap.find(n->address) != n) { FAIL("not found"); }
    }
    CHECK(heap.owns(at(0x7000100)));
    CHECK_FALSE(heap.owns(at(0x7000100 - 1)));
    CHECK_FALSE(heap.owns(at(where)));
    for (auto* const n : out) { heap.give_clean(n); }
    while (heap.chunks().size() != 0) {
        auto* const c    = heap.chunks()[heap.chunks().size() / 2];
        void* const base = c->base;
        CHECK(heap.owns(base));
        heap.remove(c);
        CHECK_FALSE(heap.owns(base));
    }
    CHECK(heap.blocks_free() == 0);
    CHECK(heap.take_clean() == nullptr);
}

TEST_CASE("slab_heap: random blocks of several streams are never handed out twice") {
    std::mt19937_64 random{21};
    slab_heap       heap{512};
    heap.reserve_slot(3);
    std::vector<slab_heap::entry*> out;
    std::uint64_t                  epoch = 1, done = 0;
    std::uintptr_t                 next = 0x10000000;
    for (int i = 0; i < 200000; ++i) {
        std::size_t const slot = random() % 4;
        if (random() % 2 == 0) {
            slab_heap::entry* n = heap.take_own(slot);
            if (n == nullptr) { n = heap.take_clean(); }
            if (n == nullptr && random() % 4 == 0) { n = heap.take(heap.oldest(random() % 4)); }
            if (n == nullptr) {
                std::size_t const count = heap.wanted();
                if (heap.blocks_free() + heap.blocks_live() > 4000) { continue; }
                slab_heap::holder const first{slot, epoch};
                heap.add(at(next), count * 512, random() % 2 == 0 ? &first : nullptr);
                next += count * 512;
                continue;
            }
            if (n->at != slab_heap::place::live || heap.find(n->address) != n) { FAIL("wrong"); }
            out.push_back(n);
        } else if (!out.empty()) {
            std::size_t const at = random() % out.size();
            if (random() % 4 == 0) {
                heap.give_clean(out[at]);
            } else {
                heap.give(out[at], slot, epoch);
            }
            out[at] = out.back();
            out.pop_back();
        }
        if (random() % 64 == 0) { ++epoch; }
        if (random() % 256 == 0) {
            done = epoch - 1;
            heap.collect_complete([&](std::size_t, std::uint64_t e) { return e <= done; });
        }
        if (i % 2000 == 0) { CHECK(counts_agree(heap)); }
    }
    for (auto* const n : out) { heap.give_clean(n); }
    heap.collect_complete([](std::size_t, std::uint64_t) { return true; });
    CHECK(counts_agree(heap));
    while (heap.chunks().size() != 0) { heap.remove(heap.chunks()[0]); }
}

TEST_CASE("slab_heap: without host memory for a chunk nothing has changed") {
    slab_heap heap{256};
    heap.add(at(0x1000), 256, nullptr);
    for (std::uint64_t n = 1;; ++n) {
        slab_heap::holder const first{5, 1};
        bool                    threw = false;
        doubles::bombing        armed{n};
        try {
            heap.add(at(0x100000), 100 * 256, &first);
        } catch (std::bad_alloc const&) { threw = true; }
        bool const hit = armed.defuse();
        CHECK(threw == hit);
        if (!hit) { break; }
        CHECK(heap.chunks().size() == 1);
        CHECK(heap.blocks_free() == 1);
    }
    CHECK(heap.blocks_free() == 101);
    CHECK(heap.take_own(5)->address == at(0x100000));
}

TEST_CASE("slab_heap: a moved-from heap is empty, and blocks do not move") {
    slab_heap a{256};
    a.add(at(0x1000), 4 * 256, nullptr);
    auto* const n = a.take_clean();
    slab_heap   b{std::move(a)};
    CHECK(a.blocks_free() == 0);
    CHECK(a.take_clean() == nullptr);
    CHECK(b.find(n->address) == n);
    a = std::move(b);
    a.give_clean(n);
    CHECK(a.blocks_free() == 4);
    a = slab_heap{512};
    CHECK(a.stride() == 512);
    CHECK(a.blocks_free() == 0);
}
