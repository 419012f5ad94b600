// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/json_writer.hpp> // first: the header stands alone

#include "../recorded.hpp"

#include <doctest/doctest.h>

using vram::detail::byte_file;
using vram::detail::json_writer;

TEST_CASE("json_writer: lists, dictionaries and strings") {
    recorded_history::file_name const name{"json"};
    byte_file                         out{name.path()};
    json_writer                       to{out};
    to.dictionary([&] {
        to.key("a");
        to.list([&] {
            to.item([&] { to.number(1); });
            to.item([&] { to.list([] {}); });
            to.item([&] { to.dictionary([] {}); });
            to.item([&] { to.truth(false); });
        });
        to.key("b");
        to.shared(1, [&] { to.string("x\"\\\n\x01\xC3\xA4\xFF."); });
    });
    to.finish();
    out.close();
    CHECK(name.contents() ==
          "{\"a\":[1,[],{},false],\"b\":\"x\\\"\\\\\\u000a\\u0001\xC3\xA4?.\"}\n");
}
