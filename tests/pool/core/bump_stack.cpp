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
    row.current().take(start, bytes, nullptr, 0);
    return reinterpret_cast<void*>(start);
}

constexpr auto in_use_by_nobody = [](auto const&, tag&) { return false; };

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
    CHECK(row.used_around(at(0x8000)) == &row.current());
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
    CHECK(row.unwind(5, in_use_by_nobody) == 0x800);
    CHECK(row.has(5));
    CHECK_FALSE(row.has(8));
    CHECK(row.current().base() == at(0x1000));
    CHECK(row_take(row, 0x100) == at(0x1100));
    CHECK(row.unwind(3, in_use_by_nobody) == 0x200);
    CHECK_FALSE(row.has(5));
    CHECK(row.marked());
    CHECK(row.reset(in_use_by_nobody) == 0);
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
    CHECK(row.unwind(4, in_use_by_nobody) == 0);
    CHECK(row.mark(7) == 4);
    CHECK(row.unwind(1, in_use_by_nobody) == 0x400);
}

TEST_CASE(
    "bump_stack: chunks behind the current one may be freed, and the first if nothing is live") {
    int_row row;
    CHECK(idle(row) == 0);
    CHECK(row.at_start());
    CHECK(row.free_memory() == free_pieces{});
    row.add({at(0x1000), 0x400, 256});
    row.add({at(0x8000), 0x800, 256});
    CHECK(idle(row) == 2);
    row.mark(1); // an unwind may return to it
    CHECK(idle(row) == 1);
    CHECK(row.at_start());
    (void)row_take(row, 0x100);
    CHECK_FALSE(row.at_start());
    CHECK(row.free_memory().bytes == 0xb00);
    CHECK(row.free_memory().largest == 0x800);
    CHECK(row.free_memory().releasable == 0x800);
    CHECK(row.take_idle(1).base() == at(0x8000));
    CHECK(idle(row) == 0);
    row.reset(in_use_by_nobody);
    CHECK(idle(row) == 1);
    int_row moved{std::move(row)};
    CHECK(row.empty());
    CHECK(idle(row) == 0);
    row = std::move(moved);
    CHECK(idle(row) == 1);
}

TEST_CASE("bump_stack: it is not at its start if the first chunk was skipped") {
    int_row row;
    row.add({at(0x1000), 0x100, 256});
    row.add({at(0x8000), 0x800, 256});
    CHECK(row.use_next(0x200, 256));
    (void)row_take(row, 0x200);
    CHECK_FALSE(row.at_start());
    CHECK(row.reset(in_use_by_nobody) == 0x200);
    CHECK(row.at_start());
    CHECK(row.use_next(0x200, 256));
    (void)row_take(row, 0x200);
    row.current().unwind(row.current().begin(), in_use_by_nobody);
    CHECK_FALSE(row.at_start()); // or what comes next would leave no room here for what was
    row.reset(in_use_by_nobody);
    CHECK(row_take(row, 0x100) == at(0x1000));
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
    row.current().unwind(row.current().begin(), in_use_by_nobody);
    row.mark(1);
    CHECK(idle(row) == 0); // an unwind may return to it
    CHECK(row.unwind(1, in_use_by_nobody) == 0);
    int_row other;
    other.add({at(0x1000), 0x400, 256});
    other.add({at(0x8000), 0x800, 256});
    (void)row_take(other, 0x100);
    CHECK(other.use_next(0x800, 256));
    CHECK(other.take_idle(1).base() == at(0x8000));
    CHECK(other.current().base() == at(0x1000));
    CHECK(row_take(other, 0x100) == at(0x1100));
}
