// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/csv_row.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

using vram::detail::csv_row;

TEST_CASE("csv_row: a line with quoted texts") {
    CHECK(csv_row{2, 86'400'000'000'000 + 1'000, "free", 255, 17, 3, "a,b", "x\n\"y\".cpp", 9}
              .line() == "2,00:00:00.000001,free,0xff,17,3,\"a,b\",\"x \"\"y\"\".cpp\",9\n");
    CHECK(csv_row{0, -5, "free", 0, 0, 0, "", "", 0}.line() ==
          "0,00:00:00.000000,free,0x0,0,0,,,\n");
}

TEST_CASE("csv_row: long texts are shortened from the front") {
    std::string const quotes(2000, '"');
    csv_row const row{~0U, 0, "allocate failure", ~0ULL, ~0ULL, ~0ULL, quotes, quotes + "end", ~0U};
    CHECK(row.line().size() < 1300);
    CHECK(row.line().ends_with("end\",4294967295\n"));
}

TEST_CASE("csv_row: a byte that is not part of valid UTF-8 is written as a question mark") {
    std::string const umlaut = "\xc3\xa4";
    csv_row const     row{0, 0, "free", 0, 0, 0, "a\xff" + umlaut + "\xc3,\x80", umlaut, 1};
    CHECK(row.line() ==
          "0,00:00:00.000000,free,0x0,0,0,\"a?" + umlaut + "?,?\"," + umlaut + ",1\n");
    std::string path = "/";
    while (path.size() < 300) { path += umlaut; } // the last 256 bytes begin within a character
    CHECK(csv_row{0, 0, "free", 0, 0, 0, "", path, 1}.line().find('?') == std::string::npos);
    path += '/';
    CHECK(csv_row{0, 0, "free", 0, 0, 0, "", path, 1}.line().find(",?\xc3") != std::string::npos);
}
