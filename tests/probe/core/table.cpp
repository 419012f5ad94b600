// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/table.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using vram::detail::table;

TEST_CASE(
    "table: columns are as wide as their widest cell, names to the left, numbers to the right") {
    table t{{"layer", "live", "p"}};
    t.row({"pool", "1.00 GiB", "12345"});
    t.row({"x", "2 B", "1"});
    CHECK(t.text() == "layer      live      p\n"
                      "pool   1.00 GiB  12345\n"
                      "x           2 B      1\n");
}

TEST_CASE("table: a column without any value is omitted") {
    table t{{"layer", "waits", "live"}};
    t.row({"pool", "", "1"});
    t.row({"raw", "", "2"});
    CHECK(t.text() == "layer  live\npool      1\nraw       2\n");
}

TEST_CASE("table: a short row is filled, a long one cut, and no line ends in blanks") {
    table t{{"a", "b", "c"}};
    t.row({"1", "2", "3"});
    t.row({"1"});
    t.row({"1", "2", "3", "4"});
    CHECK(t.text() == "a  b  c\n1  2  3\n1\n1  2  3\n");
}

TEST_CASE("table: a table without rows prints an empty line") {
    CHECK(table{{"a"}}.text() == "\n");
}
