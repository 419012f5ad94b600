// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/table.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <initializer_list> // initializer_list

using vram::detail::table;

namespace {
table<> table_of(std::size_t columns, std::initializer_list<char const*> cells) {
    table out{columns};
    for (char const* const each : cells) { out.add(each); }
    return out;
}
} // namespace

TEST_CASE(
    "table: columns are as wide as their widest cell, names to the left, numbers to the right") {
    table const t =
        table_of(3, {"layer", "live", "p", "pool", "1.00 GiB", "12345", "x", "2 B", "1"});
    CHECK(t.text() == "layer      live      p\n"
                      "pool   1.00 GiB  12345\n"
                      "x           2 B      1\n");
}

TEST_CASE("table: a column without any value is omitted") {
    table const t = table_of(3, {"layer", "waits", "live", "pool", "", "1", "raw", "", "2"});
    CHECK(t.text() == "layer  live\npool      1\nraw       2\n");
}

TEST_CASE("table: no line ends in blanks, and an incomplete row is not printed") {
    table const t = table_of(3, {"a", "b", "c", "1", "2", "3", "1", "", "", "4"});
    CHECK(t.text() == "a  b  c\n1  2  3\n1\n");
}

TEST_CASE("table: a table without rows prints an empty line") {
    CHECK(table_of(1, {"a"}).text() == "\n");
}
