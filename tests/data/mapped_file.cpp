// SPDX-License-Identifier: Apache-2.0
#include <vram/data/mapped_file.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "files.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace vram;
using namespace vram::detail;

static_assert(std::is_nothrow_move_constructible_v<mapped_file> &&
              std::is_nothrow_move_assignable_v<mapped_file>);

namespace mapped_file_tests {

using files::content;
using files::same;

TEST_CASE("mapped_file: its bytes are those of the file, and are read on access") {
    files::folder const here;
    auto const          all = content(10'000);
    for (bool const populate : {false, true}) {
        mapped_file const map{here.with("a", all), {.populate = populate}};
        map.will_need(5000, 1000);
        map.will_need(0, unsatisfiable);
        map.will_need(9999, 1);
        map.will_need(unsatisfiable, 1); // no hint
        CHECK(map.size() == 10'000);
        CHECK(same(map.bytes(), all));
        CHECK(map.path() == here / "a");
    }
}

TEST_CASE("mapped_file: it can be read as elements after a header") {
    files::folder const here;
    mapped_file const   map{here.with("a", content(16 + 40))};
    auto const          numbers = map.span<std::uint32_t const>(16);
    REQUIRE(numbers.size() == 10);
    CHECK(same(std::as_bytes(numbers), content(40, 16)));
    CHECK(map.span<std::uint32_t const>(56).empty());
    try {
        (void)map.span<std::uint64_t const>(16); // 40 bytes from 16 on: whole
        (void)map.span<char const[3]>(16);
        FAIL("40 bytes are no whole number of threes");
    } catch (file_error const& e) {
        CHECK(e.is(file_error::reason::partial_record));
        CHECK(e.offset() == 55);
        CHECK(e.wanted() == 3);
        CHECK(e.got() == 1);
    }
    try {
        (void)map.span<std::uint32_t const>(60);
        FAIL("the file ends before");
    } catch (file_error const& e) { CHECK(e.ends_early()); }
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)map.span<std::uint32_t const>(2), doubles::broken_contract);
    CHECK_THROWS_AS((void)map.span<std::uint32_t>(), doubles::broken_contract);
}

TEST_CASE("mapped_file: a new file is zero, and keeps written data") {
    files::folder const here;
    {
        mapped_file map{here / "new", {.create = 4000}};
        auto const  numbers = map.span<std::uint32_t>();
        REQUIRE(numbers.size() == 1000);
        for (std::uint32_t const n : numbers) { REQUIRE(n == 0); }
        for (std::uint32_t i = 0; i < 1000; ++i) { numbers[i] = i; }
        map.flush();
    }
    mapped_file const again{here / "new"};
    auto const        numbers = again.span<std::uint32_t const>();
    REQUIRE(numbers.size() == 1000);
    for (std::uint32_t i = 0; i < 1000; ++i) { REQUIRE(numbers[i] == i); }
}

TEST_CASE("mapped_file: an empty file has no bytes, and a path that is not a file is refused") {
    files::folder const here;
    mapped_file         empty{here.with("a", {})};
    CHECK(empty.size() == 0);
    CHECK(empty.bytes().empty());
    CHECK(empty.span<std::uint64_t const>().empty());
    empty.will_need(0, 10);
    empty.flush();
    CHECK_THROWS_AS(mapped_file{here / "missing"}, file_error);
    CHECK_THROWS_AS(mapped_file{here / "."}, file_error);
    // More than any address space has, and any file: refused by the one or by the other.
    CHECK_THROWS_AS((mapped_file{here / "b", {.create = unsatisfiable}}), file_error);
    CHECK_THROWS_AS((mapped_file{here / "c", {.create = file_calls::most - 4095}}), file_error);
}

TEST_CASE("mapped_file: offsets beyond 4 GiB work") {
    files::folder const   here;
    constexpr std::size_t far = (std::size_t{5} << 30) + 4096;
    {
        mapped_file map{here / "large",
                        {.create = far + 8}}; // it uses disk space only for written pages
        map.span<std::uint64_t>()[far / 8] = 42;
    }
    mapped_file const map{here / "large"};
    CHECK(map.span<std::uint64_t const>()[far / 8] == 42);
    CHECK(map.span<std::uint64_t const>()[far / 8 - (std::size_t{4} << 30) / 8] == 0);
}

TEST_CASE("mapped_file: a move takes its bytes along") {
    files::folder const here;
    mapped_file         a{here.with("a", content(10))};
    mapped_file         b{here.with("b", content(20))};
    auto const* const   at = b.bytes().data();
    a                      = std::move(b);
    CHECK(a.size() == 20);
    CHECK(a.bytes().data() == at);
    CHECK(a.path() == here / "b");
    mapped_file const c{std::move(a)};
    CHECK(same(c.bytes(), content(20)));
    CHECK(a.size() == 0); // NOLINT(bugprone-use-after-move)
}

} // namespace mapped_file_tests
