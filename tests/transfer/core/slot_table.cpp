// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_table.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/transfer/core/pinned_slot.hpp>
#include <vram/transfer/core/slot.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;
using namespace vram::detail;

namespace bookkeeping {
using slot   = vram::detail::slot<host_platform>;
using pinned = pinned_slot<host_platform>;
using books  = slot_table<slot, pinned>;

/// The tables of two pinned and two device slots.
struct pair_of_books {
    pinned p[2] = {pinned{{}, false}, pinned{{}, false}};
    slot   s[2] = {slot{{}}, slot{{}}};
    books  b{2, 2, true};

    pair_of_books() {
        for (pinned& each : p) { b.add(each); }
        for (slot& each : s) { b.add(each); }
    }
    /// One batch from an empty slot to a ready one.
    void bring() {
        pinned* const from = b.fill();
        b.filled(*from);
        pinned* f = nullptr;
        slot*   t = nullptr;
        b.copy(f, t);
        CHECK(f == from);
        b.copied(*t, nullptr);
        b.make_empty(*f);
    }
};
} // namespace bookkeeping
using bookkeeping::books;
using bookkeeping::pair_of_books;

TEST_CASE("slot_table: a batch passes all states, and its slots are reused") {
    pair_of_books all;
    for (std::size_t i = 0; i < 5; ++i) {
        all.bring();
        CHECK(all.b.states() == slot_states{.empty = 2, .unused = 1, .ready = 1});
        auto* const s = all.b.take();
        REQUIRE(s != nullptr);
        CHECK(s->index == i);
        CHECK(all.b.states().held == 1);
        all.b.give(*s);
    }
    CHECK_FALSE(all.b.exhausted());
}

TEST_CASE("slot_table: one thread at a time copies, and a copied block is empty when it says so") {
    pair_of_books all;
    auto* const   p = all.b.fill();
    all.b.filled(*p);
    CHECK(all.b.can_copy());
    bookkeeping::pinned* f = nullptr;
    bookkeeping::slot*   t = nullptr;
    all.b.copy(f, t);
    CHECK_FALSE(all.b.can_copy());
    CHECK(all.b.states() == slot_states{.empty = 1, .copying = 1, .unused = 1});
    all.b.copied(*t, nullptr);
    CHECK(all.b.states() == slot_states{.empty = 1, .copying = 1, .unused = 1, .ready = 1});
    all.b.make_empty(*f);
    CHECK(all.b.states() == slot_states{.empty = 2, .unused = 1, .ready = 1});
}

TEST_CASE("slot_table: the range ends at its first missing batch, in any order of discovery") {
    SUBCASE("the source ends") {
        pair_of_books all;
        all.bring();
        all.b.ended(*all.b.fill(), nullptr);
        CHECK(all.b.no_more());
        CHECK(all.b.exhausted());
        CHECK(all.b.take() != nullptr); // ready batches stay
        CHECK(all.b.error() == nullptr);
    }
    SUBCASE("the number is known") {
        pair_of_books all;
        all.b.begin(1, {});
        CHECK_FALSE(all.b.exhausted());
        all.bring();
        CHECK(all.b.fill() == nullptr);
        CHECK(all.b.exhausted());
    }
    SUBCASE("a copy fails, and what was filled after it is dropped") {
        pair_of_books all;
        auto* const   first  = all.b.fill();
        auto* const   second = all.b.fill();
        all.b.filled(*first);
        all.b.filled(*second);
        bookkeeping::pinned* f = nullptr;
        bookkeeping::slot*   t = nullptr;
        all.b.copy(f, t);
        all.b.copied(*t, std::make_exception_ptr(std::runtime_error{"broken"}));
        CHECK_FALSE(all.b.can_copy());
        CHECK(all.b.exhausted());
        CHECK(all.b.error() != nullptr);
        CHECK(all.b.error() == nullptr); // once
    }
    SUBCASE("the device fails") {
        pair_of_books all;
        all.bring();
        all.b.fail(std::make_exception_ptr(1));
        CHECK(all.b.exhausted());
        CHECK(all.b.take() != nullptr);
        CHECK(all.b.error() != nullptr);
    }
    SUBCASE("an earlier end counts, a later one does not") {
        pair_of_books all;
        auto* const   first  = all.b.fill();
        auto* const   second = all.b.fill();
        all.b.ended(*second, std::make_exception_ptr(2));
        CHECK_FALSE(all.b.exhausted()); // the first may still come
        all.b.ended(*first, nullptr);
        CHECK(all.b.exhausted());
        CHECK(all.b.error() == nullptr);
    }
}

TEST_CASE("slot_table: an epoch begins with all unused slots") {
    pair_of_books all;
    all.bring();
    all.bring();
    auto* const kept = all.b.take();
    all.b.begin(books::none, {});
    CHECK(all.b.states() == slot_states{.empty = 2, .unused = 1, .held = 1});
    CHECK_FALSE(all.b.begun());
    all.bring();
    CHECK(all.b.take()->index == 0);
    CHECK_FALSE(all.b.all_held()); // another batch may not come at all
    all.b.filled(*all.b.fill());
    CHECK(all.b.all_held());
    all.b.give(*kept);
    CHECK_FALSE(all.b.all_held());
}

TEST_CASE("slot_table: a spare block is one that the loop does not hold") {
    pair_of_books all;
    all.bring();
    all.bring();
    auto* const kept  = all.b.take();
    auto* const spare = all.b.take_spare(); // with a batch that the loop has not taken
    REQUIRE(spare != nullptr);
    CHECK(spare != kept);
    CHECK(all.b.take_spare() == nullptr);
    all.b.put_spare(*spare);
    CHECK(all.b.states().unused == 1);
    CHECK(all.b.take_spare() == spare);
}

TEST_CASE("slot_table: an omitted batch releases its slot when its turn comes") {
    pair_of_books all;
    auto* const   first = all.b.fill();
    auto* const   next  = all.b.fill();
    all.b.left_out(*next); // behind one that is being filled
    CHECK_FALSE(all.b.can_copy());
    CHECK_FALSE(all.b.can_fill());
    CHECK_FALSE(all.b.take_passed());
    all.b.filled(*first);
    bookkeeping::pinned* from = nullptr;
    bookkeeping::slot*   to   = nullptr;
    all.b.copy(from, to);
    CHECK(from == first);
    CHECK(all.b.take_passed());
    CHECK_FALSE(all.b.take_passed());
    CHECK(all.b.fill() == next); // empty, and filled with the batch after it
    CHECK(next->index == 2);
    all.b.copied(*to, nullptr);
    all.b.filled(*next);
    CHECK(all.b.can_copy());
}

TEST_CASE("slot_table: the range is over when its last batch is omitted") {
    pair_of_books all;
    all.b.begin(2, {});
    auto* const first = all.b.fill();
    auto* const last  = all.b.fill();
    all.b.left_out(*first);
    CHECK_FALSE(all.b.exhausted());
    all.b.left_out(*last);
    CHECK(all.b.exhausted());
    CHECK(all.b.states().empty == 2);
}
