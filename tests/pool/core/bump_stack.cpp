// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/bump_stack.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::bump_stack<int>;

namespace {

using int_row = bump_stack<int>;

/// Allocates `bytes` from the current chunk; returns null if they do not fit.
void* row_take(int_row& row, std::size_t bytes) {
    std::uintptr_t const start = row.current().place(bytes, 256);
    if (start == 0) { return nullptr; }
    row.current().reserve();
    row.current().take(start, bytes, nullptr, false);
    row.live_at_top() += bytes;
    return reinterpret_cast<void*>(start);
}

/// Returns to a mark (0: to the beginning). No stream uses the memory. Returns the bytes that were
/// live.
std::size_t row_unwind(int_row& row, std::uint64_t serial) {
    row.each_since(serial, [](auto& c, std::uintptr_t to) {
        c.unwind(to, [](auto const&) { return tag{}; });
    });
    return row.go_back(serial);
}

/// How many chunks may go.
std::size_t idle(int_row const& row) { return row.chunks().size() - row.first_idle(); }

} // namespace

TEST_CASE("bump_stack: it advances to a chunk with room, and finds the used chunk of an address") {
    int_row row;
    CHECK(row.empty());
    CHECK_FALSE(row.use_next(1, 1));
    CHECK(row.used_around(at(0x1000)) == nullptr);
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x4000), 0x200, 256});
    row.add({at(0x8000), 0x800, 256});
    CHECK(row.current().base() == at(0x1000));
    CHECK(row_take(row, 0x400) == at(0x1000));
    CHECK(row.use_next(0x600, 256)); // past one that is too small
    CHECK(row.current().base() == at(0x8000));
    CHECK_FALSE(row.use_next(0x600, 256));
    CHECK(row.used_around(at(0x13ff))->base() == at(0x1000));
    CHECK(row.used_around(at(0x8000)) == nullptr); // above the top
    (void)row_take(row, 0x100);
    CHECK(row.used_around(at(0x80ff)) == &row.current());
    CHECK(row.used_around(at(0x8100)) == nullptr);
    CHECK(row.used_around(at(0x4000)) == nullptr); // held, and not in use
    CHECK(row.owns(at(0x4000)));
    CHECK_FALSE(row.owns(at(0x2000)));
    CHECK(row.add_current({at(0x10000), 0x100, 256}).base() == at(0x10000));
    CHECK(row.chunks()[row.chunks().size() - 1].base() ==
          at(0x4000)); // still behind all that is in use
}

TEST_CASE("bump_stack: blocks since a mark are freed, over chunks and earlier marks") {
    int_row row;
    row.mark(3); // before there is a chunk
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x800, 256});
    (void)row_take(row, 0x100);
    row.mark(5);
    (void)row_take(row, 0x300);
    CHECK(row.use_next(0x500, 256));
    (void)row_take(row, 0x500);
    row.mark(8);
    CHECK(row.has(5));
    CHECK_FALSE(row.has(6));
    CHECK(row_unwind(row, 5) == 0x800);
    CHECK(row.has(5));
    CHECK_FALSE(row.has(8));
    CHECK(row.current().base() == at(0x1000));
    CHECK(row_take(row, 0x100) == at(0x1100));
    CHECK(row_unwind(row, 3) == 0x200);
    CHECK_FALSE(row.has(5));
    CHECK(row.marked());
    CHECK(row_unwind(row, 0) == 0);
    CHECK_FALSE(row.marked());
}

TEST_CASE("bump_stack: a mark without allocations after the previous one is the previous one") {
    int_row row;
    CHECK(row.mark(1) == 1);
    CHECK(row.mark(2) == 1);
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x400, 256});
    CHECK(row.mark(3) == 3);
    (void)row_take(row, 0x400);
    CHECK(row.mark(4) == 4);
    CHECK(row.mark(5) == 4);
    CHECK_FALSE(row.has(5));
    CHECK(row.use_next(0x400, 256));
    CHECK(row.mark(6) == 6);
    CHECK(row_unwind(row, 4) == 0);
    CHECK(row.mark(7) == 4);
    CHECK(row_unwind(row, 1) == 0x400);
}

TEST_CASE(
    "bump_stack: chunks behind the current one may be freed, and the first if nothing is live") {
    int_row row;
    CHECK(idle(row) == 0);
    CHECK(row.free_memory() == free_pieces{});
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x800, 256});
    CHECK(idle(row) == 2);
    row.mark(1); // an unwind may return to it
    CHECK(idle(row) == 1);
    (void)row_take(row, 0x100);
    CHECK(row.free_memory().bytes == 0xb00);
    CHECK(row.free_memory().largest == 0x800);
    CHECK(row.free_memory().releasable == 0x800);
    CHECK(row.take_idle(1).base() == at(0x8000));
    CHECK(idle(row) == 0);
    row_unwind(row, 0);
    CHECK(idle(row) == 1);
    int_row moved{std::move(row)};
    CHECK(row.empty());
    CHECK(idle(row) == 0);
    row = std::move(moved);
    CHECK(idle(row) == 1);
}

TEST_CASE("bump_stack: live bytes are counted between marks, over chunks") {
    int_row row;
    row.mark(1);
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x800, 256});
    (void)row_take(row, 0x100);
    row.mark(3);
    (void)row_take(row, 0x200);
    CHECK(row.use_next(0x300, 256));
    (void)row_take(row, 0x300);
    row.mark(5);
    (void)row_take(row, 0x400);
    auto& first = row.chunks()[0];
    auto& next  = row.chunks()[1];
    CHECK(row.live_around(first, 0x10ff) == 0x100);
    CHECK(row.live_around(first, 0x1100) == 0x500);
    CHECK(row.live_around(next, 0x82ff) == 0x500);
    CHECK(row.live_around(next, 0x8300) == 0x400);
    row.live_around(first, 0x1100) -= 0x200;
    CHECK(row_unwind(row, 3) == 0x700);
    CHECK(row_unwind(row, 3) == 0);
    (void)row_take(row, 0x100);
    CHECK(row_unwind(row, 0) == 0x200);
    CHECK_FALSE(row.marked());
    (void)row_take(row, 0x100);
    CHECK(row.live_around(row.current(), 0x1000) == 0x100);
    CHECK(row_unwind(row, 0) == 0x100);
}

TEST_CASE(
    "bump_stack: the current chunk may be freed if nothing of it is live, also behind a used one") {
    int_row row;
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x800, 256});
    (void)row_take(row, 0x100);
    CHECK(row.use_next(0x800, 256));
    CHECK(idle(row) == 1);
    CHECK(row.free_memory().releasable == 0x800);
    (void)row_take(row, 0x800);
    CHECK(idle(row) == 0);
    row.current().unwind(row.current().begin(), [](auto const&) { return tag{}; });
    row.mark(1);
    CHECK(idle(row) == 0); // an unwind may return to it
    CHECK(row_unwind(row, 1) == 0);
    int_row other;
    other.add({at(0x1000), 0x400, 256});
    other.add({at(0x8000), 0x800, 256});
    (void)row_take(other, 0x100);
    CHECK(other.use_next(0x800, 256));
    CHECK(other.take_idle(1).base() == at(0x8000));
    CHECK(other.current().base() == at(0x1000));
    CHECK(row_take(other, 0x100) == at(0x1100));
}
