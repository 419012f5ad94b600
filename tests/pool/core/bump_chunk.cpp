// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/bump_chunk.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::bump_chunk<int>;

namespace {

using chunk_of_ints = bump_chunk<int>;

/// The stream with the id and the slot `n`.
chunk_of_ints::user user_of(int n) {
    return {n, static_cast<std::uint64_t>(n), static_cast<std::size_t>(n)};
}
/// Allocates `bytes` for the stream `n` (0: for any stream), the slow way.
void chunk_take(chunk_of_ints& c, int n, std::size_t bytes, bool captured = false) {
    auto const by = user_of(n);
    c.reserve();
    c.take(c.place(bytes, 256), bytes, n != 0 ? &by : nullptr, captured);
}
/// Every use becomes a pending use of its slot until `epoch`.
auto until(std::uint64_t epoch) {
    return [epoch](chunk_of_ints::use const& u) {
        return tag{0, 0, u.part.epoch != chunk_of_ints::running ? u.part.epoch : epoch, u.by.slot};
    };
}
/// The pending use of a slot, or one without addresses.
tag wait_of(chunk_of_ints const& c, std::size_t slot, bool captured = false) {
    for (tag const& t : c.waits()) {
        if (t.slot == slot && (t.epoch == tag::captured) == captured) { return t; }
    }
    return {};
}

} // namespace

TEST_CASE("bump_chunk: there is room up to the end, and not beyond") {
    chunk_of_ints c{at(0x1100), 0x1000, 256};
    CHECK(c.place(0x1000, 256) == 0x1100);
    CHECK(c.place(0x1001, 256) == 0);
    CHECK(c.place(0x100, 0x1000) == 0x2000);
    CHECK(c.place(0x101, 0x1000) == 0);
    CHECK(c.place(~std::size_t{0}, 256) == 0);
    CHECK(c.owns(at(0x1100)));
    CHECK(c.owns(at(0x20ff)));
    CHECK_FALSE(c.owns(at(0x2100)));
    CHECK_FALSE(c.owns(at(0x10ff)));
}

TEST_CASE("bump_chunk: each stream has one pending use, from its first to its last block") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (int const n : {1, 2, 1, 0, 3}) { chunk_take(c, n, 0x100); }
    c.unwind(0x1000, until(7));
    CHECK(c.waits().size() == 3);
    CHECK(wait_of(c, 1) == tag{0x1000, 0x1300, 7, 1});
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1200, 7, 2});
    CHECK(wait_of(c, 3) == tag{0x1400, 0x1500, 7, 3});
    chunk_take(c, 4, 0x180); // that of others ends below the new top
    CHECK(c.waits().size() == 3);
    CHECK(wait_of(c, 1).begin == 0x1180);
    CHECK(wait_of(c, 2).begin == 0x1180);
    chunk_take(c, 4, 0x200);
    CHECK(c.waits().size() == 1);
    c.drop([](tag const& t) { return t.slot == 3; });
    CHECK(c.waits().size() == 0);
}

TEST_CASE("bump_chunk: unwinding to the middle cuts the uses of streams with blocks below it") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (int const n : {1, 2, 1, 2}) { chunk_take(c, n, 0x100); }
    c.unwind(0x1200, until(5));
    CHECK(wait_of(c, 1) == tag{0x1200, 0x1300, 5, 1});
    CHECK(wait_of(c, 2) == tag{0x1200, 0x1400, 5, 2});
    c.unwind(0x1100, until(6));
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1400, 6, 2}); // both parts have one use
    c.unwind(0x1000, [](auto const&) { return tag{}; });
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1400, 6, 2});
    CHECK(c.empty());
}

TEST_CASE("bump_chunk: unwinding leaves streams without blocks above the mark in use") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (int const n : {1, 2}) { chunk_take(c, n, 0x100); }
    c.unwind(0x1100, until(5));
    CHECK(c.waits().size() == 1);
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1200, 5, 2});
    CHECK(c.find_use(1, chunk_of_ints::running)->part.end == 0x1100);
    CHECK(c.find_use(2, chunk_of_ints::running) == nullptr);
}

TEST_CASE("bump_chunk: the use of a stream that frees an earlier block extends to that block") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (int const n : {1, 2}) { chunk_take(c, n, 0x100); }
    (void)c.add_use(0x1000, 0x1080, user_of(2), chunk_of_ints::running);
    c.unwind(0x1000, until(5));
    CHECK(wait_of(c, 1) == tag{0x1000, 0x1100, 5, 1});
    CHECK(wait_of(c, 2) == tag{0x1000, 0x1200, 5, 2});
}

TEST_CASE("bump_chunk: the fast path is for the last stream, without pending uses of others") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    CHECK_FALSE(c.try_take(0x1000, 0x100, 1, 1)); // it has no block
    chunk_take(c, 1, 0x100);
    CHECK(c.try_take(0x1100, 0x100, 1, 1));
    CHECK_FALSE(c.try_take(0x1200, 0x100, 2, 2));
    chunk_take(c, 2, 0x100);
    CHECK_FALSE(c.try_take(0x1300, 0x100, 1, 1)); // stream 2 was last
    chunk_take(c, 1, 0x100);
    CHECK(c.try_take(0x1400, 0x100, 1, 1));
    c.unwind(0x1100, until(3));                   // stream 1 keeps a block
    CHECK_FALSE(c.try_take(0x1100, 0x200, 1, 1)); // up to the use of stream 2
    CHECK(c.try_take(0x1100, 0x100, 1, 1));
    CHECK(wait_of(c, 1) == tag{0x1200, 0x1500, 3, 1});
    CHECK_FALSE(c.try_take(0x1200, 0x100, 1, 1));
    c.drop([](tag const& t) { return t.slot == 2; });
    c.keep_for_capture(1, 3);
    CHECK_FALSE(c.try_take(0x1200, 0x100, 1, 1)); // a graph retains it
    c.drop([](tag const&) { return true; });
    c.end_use(1, {0, 0, 9, 1});
    CHECK_FALSE(c.try_take(0x1200, 0x100, 1, 1)); // the stream has ended
    CHECK(c.top() == 0x1200);
}

TEST_CASE("bump_chunk: a stream that ended has the epoch of its end, and uses of others stay") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    for (int const n : {1, 2}) { chunk_take(c, n, 0x100); }
    c.end_use(1, {0, 0, 4, 8}); // its timeline has another slot by now
    c.end_use(3, {0, 0, 4, 3});
    c.unwind(0x1000, [](chunk_of_ints::use const& u) {
        return tag{0, 0, u.part.epoch == chunk_of_ints::running ? 9 : u.part.epoch, u.part.slot};
    });
    CHECK(wait_of(c, 8) == tag{0x1000, 0x1100, 4, 8});
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1200, 9, 2});
    CHECK(c.waits().size() == 2);
}

TEST_CASE("bump_chunk: blocks of a graph are retained apart from the other blocks of the stream") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    chunk_take(c, 1, 0x100);
    chunk_take(c, 1, 0x100, true);
    chunk_take(c, 1, 0x100);
    chunk_take(c, 2, 0x100, true);
    CHECK_FALSE(c.has_retained());
    c.unwind(0x1100, until(3));
    CHECK(c.has_retained());
    CHECK(wait_of(c, 1) == tag{0x1100, 0x1300, 3, 1});
    CHECK(wait_of(c, 1, true) == tag{0x1100, 0x1200, tag::captured, 1});
    CHECK(wait_of(c, 2, true) == tag{0x1300, 0x1400, tag::captured, 2});
    c.end_captures([](std::uint64_t) { return true; });
    CHECK(c.waits().size() == 1);
    CHECK(wait_of(c, 1) == tag{0x1100, 0x1300, 3, 1});

    chunk_take(c, 1, 0x100, true); // blocks that are live when captures are forgotten
    chunk_take(c, 3, 0x100, true);
    c.end_captures([](std::uint64_t id) { return id == 1; });
    c.unwind(0x1000, until(20));
    CHECK(c.waits().size() == 1); // the other stream had ended
    CHECK(wait_of(c, 1) == tag{0x1000, 0x1200, 20, 1});
    CHECK_FALSE(c.has_retained());
}

TEST_CASE("bump_chunk: a capture retains the uses of its epoch, and those of one kind are one") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    for (int const n : {1, 2}) { chunk_take(c, n, 0x100); }
    c.unwind(0x1000, until(3));
    c.keep_for_capture(1, 4);
    CHECK_FALSE(c.has_retained());
    c.keep_for_capture(1, 3);
    CHECK(wait_of(c, 1, true) == tag{0x1000, 0x1100, tag::captured, 1});
    CHECK(wait_of(c, 2) == tag{0x1100, 0x1200, 3, 2});
    chunk_take(c, 3, 0x80);
    c.unwind(0x1000, until(4));
    for (int i = 0; i < 20; ++i) { // no more host memory is needed each time
        chunk_take(c, 1, 0x100);
        doubles::bombing armed{1};
        c.unwind(0x1000, until(5));
        c.keep_for_capture(1, 5);
        CHECK_FALSE(armed.defuse());
    }
    CHECK(c.waits().size() == 2);
}

TEST_CASE("bump_chunk: after reserve the uses of a stream and its graph need no host memory") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (int n = 1; n < 9; ++n) { chunk_take(c, n, 0x100); }
    c.reserve_waits();
    doubles::bombing armed{1};
    for (int n = 1; n < 9; ++n) {
        CHECK(c.find_use(static_cast<std::uint64_t>(n), chunk_of_ints::running) != nullptr);
        (void)c.add_use(0x1000, 0x1800, user_of(n), tag::captured);
    }
    c.reserve_waits();
    c.wait_for({0x1000, 0x1800, 7, 20});
    c.unwind(0x1000, until(7));
    CHECK_FALSE(armed.defuse());
    CHECK(c.waits().size() == 17);
}

TEST_CASE("bump_chunk: after reserve_waits one more stream may unwind without host memory") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    chunk_take(c, 1, 0x100);
    for (std::size_t slot = 20; slot < 60; ++slot) {
        c.reserve_waits();
        doubles::bombing armed{1};
        c.wait_for({0x1000, 0x1100, 7, slot});
        CHECK_FALSE(armed.defuse());
    }
    CHECK(c.waits().size() == 40);
}
