// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/column_format.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using vram::file_error;
using vram::detail::column_format;
using vram::detail::column_reader;

TEST_CASE("column_format: numbers and texts are read as they were written") {
    std::string       bytes;
    std::string const path = "test";
    for (std::uint64_t const n :
         {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, ~std::uint64_t{0}}) {
        CHECK(column_format::unzigzag(column_format::zigzag(n)) == n);
        bytes.clear();
        column_format::append(bytes, n);
        column_format::append(bytes, "text");
        column_reader from{bytes, path};
        CHECK(from.number() == n);
        CHECK(from.text() == "text");
        CHECK(from.at_end());
        CHECK_THROWS_AS((void)from.number(), file_error);
    }
    CHECK(column_format::zigzag(~std::uint64_t{0}) == 1); // -1
}

TEST_CASE("column_format: a reader refuses what is too large") {
    std::string const path = "test";
    std::string const long_number(10, '\xFF');
    CHECK_THROWS_AS((void)(column_reader{long_number, path}.number()), file_error);
    CHECK_THROWS_AS((void)(column_reader{"\x05", path}.number(4)), file_error);
    CHECK_THROWS_AS((void)(column_reader{"\x05"
                                         "abcd",
                                         path}
                               .text()),
                    file_error);
    CHECK_THROWS_AS((void)(column_reader{"\x03"
                                         "abcd",
                                         path}
                               .count(2)),
                    file_error);
}
