// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slab_free_lists.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

namespace {

slab_chunk::entry shelf_note(std::uint32_t     slot,
                             slab_chunk::place at = slab_chunk::place::pending) {
    slab_chunk::entry n;
    n.slot = slot;
    n.at   = at;
    return n;
}

} // namespace

TEST_CASE("slab_free_lists: each stream's blocks are ordered by age, and any can be removed") {
    slab_free_lists shelves;
    CHECK(shelves.oldest(3) == nullptr); // a stream without a list
    CHECK(shelves.take_newest(3) == nullptr);
    CHECK(shelves.retained(3) == nullptr);
    shelves.reserve(2);
    CHECK(shelves.size() == 3);
    slab_chunk::entry entries[4], other = shelf_note(1);
    for (auto& n : entries) {
        n = shelf_note(2);
        shelves.add(&n);
    }
    shelves.add(&other);
    CHECK(shelves.oldest(2) == &entries[0]);
    CHECK(shelves.take_newest(2) == &entries[3]);
    shelves.remove(entries[1]); // from the middle
    shelves.remove(entries[0]);
    CHECK(shelves.oldest(2) == &entries[2]);
    shelves.add_oldest(&entries[1]);
    CHECK(shelves.oldest(2) == &entries[1]);
    CHECK(shelves.take_newest(2) == &entries[2]);
    CHECK(shelves.take_newest(2) == &entries[1]);
    CHECK(shelves.take_newest(2) == nullptr);
    CHECK(shelves.oldest(2) == nullptr);
    shelves.add_oldest(&entries[0]); // the only block is also the newest
    CHECK(shelves.take_newest(2) == &entries[0]);
    CHECK(shelves.oldest(1) == &other);
}

TEST_CASE("slab_free_lists: a block that is inserted late is placed by its epoch") {
    for (std::uint64_t const epoch : {1U, 3U, 5U}) { // the oldest, in the middle, the newest
        slab_free_lists shelves;
        shelves.reserve(0);
        auto a = shelf_note(0), b = shelf_note(0), late = shelf_note(0);
        a.epoch    = 2;
        b.epoch    = 4;
        late.epoch = epoch;
        shelves.add(&a);
        shelves.add(&b);
        shelves.add_in_order(&late);
        std::uint64_t last = 0;
        for (int i = 0; i < 3; ++i) {
            auto* const n = shelves.oldest(0);
            CHECK(n->epoch > last);
            last = n->epoch;
            shelves.remove(*n);
        }
        CHECK(shelves.oldest(0) == nullptr);
        CHECK(shelves.take_newest(0) == nullptr);
    }
}

TEST_CASE("slab_free_lists: graph-retained blocks are separate from pending ones") {
    slab_free_lists shelves;
    shelves.reserve(0);
    auto waits = shelf_note(0), first = shelf_note(0, slab_chunk::place::retained), second = first;
    shelves.add(&waits);
    shelves.add_retained(&first);
    shelves.add_retained(&second);
    CHECK(shelves.retained(0) == &second);
    shelves.remove(first);
    shelves.remove(second);
    CHECK(shelves.retained(0) == nullptr);
    CHECK(shelves.oldest(0) == &waits);
    CHECK(shelves.take_newest(0) == &waits);
}
