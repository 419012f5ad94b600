// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/utf8_text.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using vram::detail::utf8_length;
using vram::detail::utf8_text;

TEST_CASE("utf8_text: what is not UTF-8 becomes question marks") {
    CHECK(utf8_text("plain") == "plain");
    CHECK(utf8_text("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80") ==
          "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
    CHECK(utf8_text("a\xFFz\xC3") == "a?z?");
    CHECK(utf8_text("\xC0\xAF") == "??");           // longer than necessary
    CHECK(utf8_text("\xED\xA0\x80") == "???");      // half of a pair
    CHECK(utf8_text("\xF4\x90\x80\x80") == "????"); // beyond the last character
    CHECK(utf8_text("\xE0\x9F\xBF\xF0\x8F\xBF\xBF") == "???????");
    CHECK(utf8_length("") == 0);
    CHECK(utf8_length("\xE2\x82\xAC.") == 3);
}
