// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_order.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using vram::detail::slot_order;

namespace {
struct numbered_slot {
    std::size_t    index = 0;
    numbered_slot* next  = nullptr;
};
} // namespace

TEST_CASE("slot_order: ordered slots leave by index, in any order of arrival") {
    slot_order<numbered_slot> order{3, true};
    numbered_slot             s[5] = {{0}, {1}, {2}, {3}, {4}};
    order.push(s[2]);
    order.push(s[1]);
    CHECK(order.front() == nullptr);
    CHECK(order.pop() == nullptr);
    order.push(s[0]);
    CHECK(order.front() == &s[0]);
    CHECK(order.pop() == &s[0]);
    order.push(s[3]);
    CHECK(order.pop() == &s[1]);
    order.push(s[4]);
    for (std::size_t i : {2U, 3U, 4U}) { CHECK(order.pop() == &s[i]); }
    CHECK(order.pop() == nullptr);
    order.clear();
    order.push(s[0]);
    CHECK(order.pop() == &s[0]);
}

TEST_CASE("slot_order: unordered slots leave as they arrive") {
    slot_order<numbered_slot> order{3, false};
    numbered_slot             s[3] = {{0}, {1}, {2}};
    for (std::size_t i : {2U, 0U, 1U}) { order.push(s[i]); }
    for (std::size_t i : {2U, 0U, 1U}) { CHECK(order.pop() == &s[i]); }
    CHECK(order.front() == nullptr);
}

TEST_CASE("slot_order: slots beyond the end are forgotten") {
    for (bool ordered : {true, false}) {
        slot_order<numbered_slot> order{4, ordered};
        numbered_slot             s[4] = {{0}, {1}, {2}, {3}};
        for (std::size_t i : {3U, 0U, 2U, 1U}) { order.push(s[i]); }
        order.drop_from(2);
        CHECK(order.pop() == &s[0]);
        CHECK(order.pop() == &s[1]);
        CHECK(order.pop() == nullptr);
    }
}
