// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot_queue.hpp> // first: the header stands alone

#include <doctest/doctest.h>

namespace {
struct chained {
    chained* next = nullptr;
};
} // namespace

template class vram::detail::slot_queue<chained>;

TEST_CASE("slot_queue: it is first in, first out, also after it was empty") {
    vram::detail::slot_queue<chained> q;
    chained                           a, b, c;
    CHECK(q.empty());
    CHECK(q.pop() == nullptr);
    for (int round = 0; round < 2; ++round) {
        q.push(a);
        q.push(b);
        CHECK(q.pop() == &a);
        q.push(c);
        CHECK(q.pop() == &b);
        CHECK(q.pop() == &c);
        CHECK(q.empty());
    }
}
