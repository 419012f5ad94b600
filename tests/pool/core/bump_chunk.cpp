// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/bump_chunk.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::bump_chunk<sim_stream_view>;

namespace {

using chunk_of_ints = bump_chunk<int>; // a stream is a number

/// Allocates for a stream, whose number is its slot and its id.
void take_for(chunk_of_ints& c, int user, std::size_t bytes, std::size_t alignment = 256) {
    c.reserve();
    c.take(c.place(bytes, alignment), bytes, &user, static_cast<std::uint64_t>(user));
}
/// The stream of a run uses it up to an epoch.
auto until(std::uint64_t epoch) {
    return [epoch](chunk_of_ints::run const& r, tag& t) {
        t = {0, 0, epoch, r.id};
        return r.named;
    };
}
/// The slots that must be waited for before the chunk is used up to `limit`.
std::vector<std::size_t> waited_for(chunk_of_ints const& c, std::uintptr_t limit) {
    std::vector<std::size_t> slots;
    c.for_each_wait(limit, [&](tag const& t) { slots.push_back(t.slot); });
    return slots;
}
using slots = std::vector<std::size_t>;

} // namespace

TEST_CASE("bump_chunk: there is room up to the end, and not beyond") {
    chunk_of_ints c{at(0x1100), 0x1000, 256};
    CHECK(c.place(0x1000, 1) == 0x1100);
    CHECK(c.place(0x1001, 1) == 0);
    CHECK(c.place(0x100, 0x1000) == 0x2000);
    CHECK(c.place(0x101, 0x1000) == 0);
    CHECK(c.place(~std::size_t{0}, 1) == 0);
    CHECK(c.place(1, std::size_t{1} << 63) == 0);
    take_for(c, 1, 0x1000);
    CHECK(c.place(1, 1) == 0);
    CHECK(c.room() == 0);
}

TEST_CASE(
    "bump_chunk: consecutive blocks of one stream are one run, and each run becomes one use") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    for (int i = 0; i < 4; ++i) { take_for(c, 1, 0x100); }
    take_for(c, 2, 0x100);
    take_for(c, 1, 0x100);
    CHECK(c.runs().size() == 3);
    CHECK(c.unwind(c.begin(), until(5)) == 0x600);
    CHECK(c.empty());
    CHECK(c.waits().size() == 3);
    CHECK(waited_for(c, 0x1001) == slots{1});
    CHECK(waited_for(c, 0x1400) == slots{1});
    CHECK(waited_for(c, 0x1401) == slots{1, 2});
    CHECK(waited_for(c, 0x2000) == slots{1, 2, 1});
    take_for(c, 3, 0x480); // across the first and half of the second
    CHECK(waited_for(c, 0x2000) == slots{2, 1});
    CHECK(c.waits()[1].begin == 0x1480);
    (void)c.unwind(c.begin(), until(6));
    CHECK(waited_for(c, 0x2000) == slots{3, 2, 1});
}

TEST_CASE("bump_chunk: the top block is removed, and the gap before it stays in the run") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    take_for(c, 1, 0x80);
    take_for(c, 1, 0x100);
    CHECK(c.is_on_top(at(0x1100), 0x100));
    CHECK_FALSE(c.is_on_top(at(0x1000), 0x80));
    c.reserve();
    c.cut(at(0x1100), 0x100);
    c.wait_for({0x1100, 0x1200, 3, 2});
    CHECK(c.top() == 0x1100);
    CHECK(waited_for(c, 0x1200) == slots{2});
    CHECK(c.unwind(c.begin(), until(5)) == 0x80);
    CHECK(waited_for(c, 0x1200) == slots{1, 2});
    CHECK(waited_for(c, 0x1100) == slots{1});
}

TEST_CASE(
    "bump_chunk: a stream allocates and frees at the top if all pending uses there are its own") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    CHECK_FALSE(c.try_extend(0x1000, 0x100, 1, 1)); // without a previous use
    c.reserve();
    c.wait_for({0x1000, 0x2000, 4, 1});
    take_for(c, 1, 0x100);
    CHECK(c.try_extend(0x1180, 0x80, 1, 1)); // behind a gap
    CHECK(c.top() == 0x1200);
    CHECK(c.runs().size() == 1);
    CHECK(c.waits()[0] == tag{0x1200, 0x2000, 4, 1});
    CHECK_FALSE(c.try_extend(0x1200, 0x100, 2, 2));          // another stream
    CHECK_FALSE(c.try_extend(0x1200, 0xE00, 1, 1));          // all there is: the tag ends
    CHECK_FALSE(c.try_pop(at(0x1000), 0x200, {0, 0, 5, 1})); // more than was taken
    CHECK_FALSE(c.try_pop(at(0x1180), 0x40, {0, 0, 5, 1}));  // not up to the top
    CHECK_FALSE(c.try_pop(at(0x1200), 0, {0, 0, 5, 1}));
    CHECK_FALSE(c.try_pop(at(0x1180), 0x80, {0, 0, 5, 2})); // another stream has used it
    CHECK_FALSE(c.try_pop(at(0x1180), 0x80, {0, 0, tag::captured, 1}));
    CHECK(c.try_pop(at(0x1180), 0x80, {0, 0, 5, 1}));
    CHECK(c.top() == 0x1180);
    CHECK(c.waits()[0] == tag{0x1180, 0x2000, 5, 1});
    CHECK(c.runs()[0].bytes == 0x100);

    c.reserve();
    c.wait_for({0x11C0, 0x1800, 9, 3}); // above the top as well
    CHECK_FALSE(c.try_extend(0x1180, 0x80, 1, 1));
    CHECK(c.try_extend(0x1180, 0x40, 1, 1)); // up to there
    c.reserve_other();
    c.record_use({0x1180, 0x11A0, 7, 3});
    CHECK_FALSE(c.try_pop(at(0x1180), 0x40, {0, 0, 5, 1})); // a part is another's
}

TEST_CASE(
    "bump_chunk: a stream cannot allocate or free at the top if another's memory begins there") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    take_for(c, 1, 0x100);
    c.reserve();
    c.wait_for({0x1100, 0x2000, 4, 2});
    CHECK_FALSE(c.try_extend(0x1100, 0x100, 1, 1));
    CHECK_FALSE(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1}));
    c.drop([](tag const&) { return true; });
    CHECK_FALSE(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1})); // there is nothing above to note it in
    c.wait_for({0x1200, 0x2000, 4, 1});
    CHECK_FALSE(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1})); // nor right above
    CHECK(c.try_extend(0x1100, 0x80, 1, 1));                 // below it there is no pending use
    CHECK(c.waits()[0] == tag{0x1200, 0x2000, 4, 1});
}

TEST_CASE("bump_chunk: a stream's run ends at a mark, a retirement, or a capture") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    c.reserve();
    c.wait_for({0x1000, 0x2000, 4, 1});
    take_for(c, 1, 0x100);
    c.reserve_marks(1);
    c.seal(1);
    CHECK_FALSE(c.try_extend(0x1100, 0x100, 1, 1));
    CHECK_FALSE(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1}));
    c.seal(0);
    c.runs()[0].ended = true;
    CHECK_FALSE(c.try_extend(0x1100, 0x100, 1, 1));
    c.runs()[0].ended = false;
    c.keep_for_capture(1, 0);
    CHECK_FALSE(c.try_extend(0x1100, 0x100, 1, 1));
}

TEST_CASE("bump_chunk: a run that was removed as a whole remains its stream's, without a use for "
          "others") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    c.reserve();
    c.wait_for({0x1000, 0x2000, 4, 1});
    take_for(c, 1, 0x100);
    REQUIRE(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1}));
    CHECK(c.empty());
    CHECK(c.freed_from() == c.top());
    CHECK(c.try_extend(0x1000, 0x100, 1, 1));
    CHECK(c.try_pop(at(0x1000), 0x100, {0, 0, 5, 1}));
    take_for(c, 2, 0x100);
    CHECK(c.runs().size() == 1);
    CHECK(c.unwind(c.begin(), until(6)) == 0x100);
    CHECK(waited_for(c, 0x1100) == slots{2});
    CHECK(c.runs().size() == 0);

    chunk_of_ints other{at(0x1100), 0x1000, 256};
    take_for(other, 3, 0x100, 0x400); // behind a gap, which is the run's
    other.reserve();
    other.cut(at(0x1400), 0x100);
    CHECK(other.freed_from() == other.begin());

    take_for(c, 1, 0x100);
    take_for(c, 2, 0x100);
    c.reserve();
    c.cut(at(0x1100), 0x100);
    CHECK(c.freed_from() == c.top()); // the first run is live
    take_for(c, 1, 0x100);            // and goes on
    CHECK(c.runs().size() == 1);
    take_for(c, 2, 0x100);
    c.reserve();
    c.cut(at(0x1200), 0x100);
    c.runs()[0].freed = 0x200;
    CHECK(c.freed_from() == c.begin()); // below one that was cut off whole
    c.reserve();
    c.cut(at(0x1100), 0x100); // of the first run
    CHECK(c.runs().size() == 1);
    CHECK(c.runs()[0].bytes == 0x100);
}

TEST_CASE(
    "bump_chunk: a run that other streams freed waits for them, and its gaps for its own stream") {
    for (bool const gap : {false, true}) {
        chunk_of_ints c{at(0x1000), 0x1000, 256};
        take_for(c, 1, gap ? 0xf0 : 0x100);
        take_for(c, 1, 0x100);
        for (auto const& [where, bytes] :
             {std::pair{0x1000, gap ? 0xf0 : 0x100}, std::pair{0x1100, 0x100}}) {
            auto const  first = static_cast<std::uintptr_t>(where);
            auto* const r     = c.find(at(first), static_cast<std::size_t>(bytes));
            REQUIRE(r != nullptr);
            r->freed += static_cast<std::size_t>(bytes);
            r->freed_by_others += static_cast<std::size_t>(bytes);
            c.reserve_other();
            c.record_use({first, first + static_cast<std::size_t>(bytes), 2, 7});
        }
        CHECK(c.freed_from() == c.begin());
        CHECK(c.unwind(c.freed_from(), until(5)) == 0);
        CHECK(waited_for(c, 0x2000) == (gap ? slots{7, 1} : slots{7}));
    }
}

TEST_CASE("bump_chunk: no run crosses a mark, and nothing below a mark is removed") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    take_for(c, 1, 0x100);
    c.reserve_marks(1);
    c.seal(1);
    CHECK_FALSE(c.is_on_top(at(0x1000), 0x100));
    take_for(c, 1, 0x100);
    CHECK(c.runs().size() == 2);
    CHECK(c.is_on_top(at(0x1100), 0x100));
    c.runs()[0].freed = c.runs()[1].freed = 0x100;
    CHECK(c.freed_from() == 0x1100);
    CHECK(c.unwind(0x1100, until(1)) == 0);
    CHECK(c.freed_from() == c.top()); // the mark stands above the other
    CHECK(c.unwind(0x1000, until(1)) == 0);
    c.seal(0);
    CHECK(c.top() == 0x1000);
}

TEST_CASE("bump_chunk: uses of other streams are split at the top without host memory") {
    chunk_of_ints c{at(0x1000), 0x10000, 256};
    for (std::size_t i = 0; i < 8; ++i) {
        take_for(c, 1, 0x100);
        c.reserve_marks(i + 1);
        c.seal(i + 1);
    }
    take_for(c, 1, 0x100);
    for (std::size_t slot = 2; slot < 6; ++slot) {
        c.reserve_other();
        c.record_use({0x1000, 0x1900, slot, slot});
    }
    c.reserve();
    auto const capacity = c.waits().capacity();
    for (std::size_t i = 8; i != 0; --i) {
        (void)c.unwind(0x1000 + i * 0x100, until(9));
        c.seal(i);
    }
    (void)c.unwind(0x1000, until(9));
    CHECK(c.waits().capacity() == capacity);
    CHECK(waited_for(c, 0x1001).size() == 5); // the run, and four others
}

TEST_CASE("bump_chunk: completed uses are dropped, and uses of a capture are kept") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    take_for(c, 1, 0x100);
    take_for(c, 2, 0x100);
    (void)c.unwind(c.begin(), until(4));
    c.keep_for_capture(2, 5); // for later uses
    CHECK_FALSE(c.has_retained());
    c.keep_for_capture(2, 4);
    c.drop([](tag const& t) { return t.epoch <= 4; });
    CHECK(waited_for(c, 0x2000) == slots{2});
    c.end_captures([](std::size_t slot) { return 3 * slot; });
    c.drop([](tag const& t) { return t.epoch <= 5; });
    CHECK(waited_for(c, 0x2000) == slots{2});
    c.drop([](tag const& t) { return t.epoch <= 6; });
    CHECK(c.waits().size() == 0);
}

TEST_CASE("bump_chunk: graph-retained memory stays so if its stream allocates and frees it") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    c.wait_for({0x1000, 0x1400, tag::captured, 1});
    c.reserve_other();
    take_for(c, 1, 0x100);
    take_for(c, 1, 0x100, 0x200);             // past a gap
    CHECK(waited_for(c, 0x1400) == slots{1}); // above it
    c.reserve();
    auto const capacity = c.waits().capacity();
    c.cut(at(0x1200), 0x100);
    c.wait_for({0x1200, 0x1300, 5, 1});
    CHECK(waited_for(c, 0x1201) == slots{1, 1}); // the graph, and the stream
    c.drop([](tag const& t) { return t.epoch == tag::captured; });
    CHECK(waited_for(c, 0x2000) == slots{1});
    (void)c.unwind(c.begin(), until(6));
    for (tag const& t : c.waits()) { CHECK(t.epoch != tag::captured); }
    CHECK(c.waits().capacity() == capacity);
}

TEST_CASE("bump_chunk: memory that another stream freed is waited for up to its last byte") {
    chunk_of_ints c{at(0x1000), 0x1000, 256};
    take_for(c, 1, 0x200);
    for (std::uint64_t epoch = 2; epoch < 4; ++epoch) {
        auto* const r = c.find(at(0x1000), 0x100);
        REQUIRE(r != nullptr);
        r->freed += 0x100;
        r->freed_by_others += 0x100;
        c.reserve_other();
        c.record_use({0x1000, 0x1200, epoch, 7});
    }
    CHECK(c.unwind(0x1000, until(5)) == 0);
    REQUIRE(c.waits().size() == 1);
    CHECK(c.waits()[0].epoch == 3);
}
