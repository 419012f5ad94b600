// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/user_line.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>

using namespace vram;
using namespace vram::detail;

namespace {

struct silent_lines {
    using stream = int;
};
struct telling_lines {
    using stream = int;
    static part_call const*&       calling_part() noexcept { return now; }
    static std::uint64_t           id(stream s) { return static_cast<std::uint64_t>(s); }
    static void                    name_stream(stream, char const* name) { named = name; }
    inline static part_call const* now   = nullptr;
    inline static std::string      named = {};
};
static_assert(!knows_callers<silent_lines> && knows_callers<telling_lines>);

// Without a platform that knows callers, nothing is stored and nothing runs.
static_assert(std::is_empty_v<user_line<silent_lines>> && std::is_empty_v<user_code<silent_lines>>);
static_assert(std::is_empty_v<remembered_line<silent_lines>> &&
              std::is_empty_v<last_use<silent_lines>>);
static_assert(std::is_trivially_destructible_v<user_line<silent_lines>>);

} // namespace

TEST_CASE("user_line: the outermost line and the innermost work count") {
    using P              = telling_lines;
    call_site const mine = call_site::current();
    CHECK(P::now == nullptr);
    {
        user_line<P> const outer{mine};
        user_line<P> const inner{call_site::current(), {part_kind::loader, "copy", 2}};
        user_line<P> const innermost{call_site::current()};
        REQUIRE(P::now != nullptr);
        CHECK(P::now->at.line() == mine.line());
        CHECK(P::now->work.part == part_kind::loader);
        CHECK(P::now->work.item == 2);
        CHECK(remembered_line<P>{}.at().line() == mine.line());
        {
            user_code<P> const theirs;
            CHECK(P::now == nullptr);
            CHECK(!user_line<P>::caller().known());
        }
        CHECK(user_line<P>::caller().line() == mine.line());
    }
    CHECK(P::now == nullptr);
}

TEST_CASE("user_line: an unknown outer line does not hide a known one") {
    using P = telling_lines;
    user_line<P> const outer{call_site{}};
    call_site const    mine = call_site::current();
    user_line<P> const inner{mine};
    CHECK(user_line<P>::caller().line() == mine.line());
}

TEST_CASE("user_line: the last use of a block is described with the next copy") {
    last_use<telling_lines> last;
    last.note(3, 7);
    part_work const work = last.work(part_kind::loader, "copy", 5);
    CHECK(work.before == 3);
    CHECK(work.stream == 7);
    CHECK(work.item == 5);
    name_stream<telling_lines>(7, "copies");
    name_stream<silent_lines>(7, "none");
    CHECK(telling_lines::named == "copies");
}
