// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/protobuf_message.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using vram::detail::protobuf_message;

TEST_CASE("protobuf_message: the examples of protobuf's documentation") {
    protobuf_message a;
    CHECK(a.number(1, 150).bytes() == "\x08\x96\x01");
    protobuf_message b;
    CHECK(b.text(2, "testing").bytes() == "\x12\x07testing");
    protobuf_message c;
    CHECK(c.message(3, a).bytes() == "\x1a\x03\x08\x96\x01");
    c.clear();
    CHECK(c.number(16, ~std::uint64_t{0}).bytes() ==
          "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}
