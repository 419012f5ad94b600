// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_list.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

using namespace vram;
using namespace vram::detail;

namespace {

/// Returns true if the list has exactly these blocks in this order, in both directions.
bool is_ring_of(block_list const& list, std::initializer_list<block const*> blocks) {
    block const* b = list.front();
    for (block const* const expected : blocks) {
        if (b != expected || b->next->previous != b || b->previous->next != b) { return false; }
        b = list.after(b);
    }
    return b == nullptr && list.empty() == (blocks.size() == 0);
}

} // namespace

TEST_CASE("block_list: the last inserted block comes first, and each can be removed") {
    block_list list;
    block      a, b, c;
    CHECK(is_ring_of(list, {}));
    list.insert(&a);
    list.insert(&b);
    list.insert(&c);
    CHECK(is_ring_of(list, {&c, &b, &a}));
    CHECK(list.first() == &c);
    block_list::remove(&b); // in the middle
    CHECK(is_ring_of(list, {&c, &a}));
    block_list::remove(&a); // the last
    CHECK(is_ring_of(list, {&c}));
    list.insert(&b);
    block_list::remove(&b); // the first
    CHECK(is_ring_of(list, {&c}));
    block_list::remove(&c);
    CHECK(is_ring_of(list, {}));
    list.insert(&a); // and again
    CHECK(is_ring_of(list, {&a}));
}

TEST_CASE("block_list: a splice takes all blocks of another list, in their order") {
    block_list from, to;
    block      a, b, gone;
    to.insert(&gone);
    from.insert(&a);
    from.insert(&b);
    to.take(from);
    CHECK(is_ring_of(to, {&b, &a}));
    CHECK(is_ring_of(from, {}));
    from.insert(&gone); // both go on
    block_list::remove(&a);
    CHECK(is_ring_of(from, {&gone}));
    CHECK(is_ring_of(to, {&b}));
    block_list nothing;
    to.take(nothing);
    CHECK(is_ring_of(to, {}));
    to.insert(&a);
    CHECK(is_ring_of(to, {&a}));
}
