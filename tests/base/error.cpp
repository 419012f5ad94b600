// SPDX-License-Identifier: Apache-2.0
#include <vram/base/error.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace vram;

TEST_CASE("error: the sink that is installed is told, and the one before it comes back") {
    int const x = 0;
    {
        doubles::mishaps outer;
        {
            doubles::mishaps inner;
            report_error({.kind = mishap::leak, .pointer = &x, .bytes = 5});
            CHECK(inner.count(mishap::leak) == 1);
            CHECK(inner.count(mishap::wrong_size) == 0);
            CHECK(inner.pointer() == &x);
        }
        report_error({.kind = mishap::dead_stream});
        CHECK(outer.count() == 1);
        CHECK(outer.count(mishap::dead_stream) == 1);
    }
    error_sink const now = set_error_sink(print_error);
    CHECK((now == print_error));
}

TEST_CASE("error: it says where it was reported") {
    static unsigned line;
    auto const before = set_error_sink(+[](error const& e) noexcept { line = e.where.line(); });
    report_error({.kind = mishap::leak});
    CHECK(line == __LINE__ - 1);
    set_error_sink(before);
}

TEST_CASE("error: every mishap has a name of its own") {
    std::set<std::string> names;
    for (auto const kind : {mishap::foreign_pointer, mishap::wrong_size, mishap::dead_stream,
                            mishap::platform_error, mishap::leak}) {
        names.insert(name(kind));
    }
    CHECK(names.size() == 5);
    CHECK_FALSE(names.contains("unknown"));
}
