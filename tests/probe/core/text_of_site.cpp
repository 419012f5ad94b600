// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/text_of_site.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <string>

using namespace vram;

TEST_CASE("text_of_site: a line has no folder, and an unknown one no text") {
    call_site const here = call_site::current();
    if (here.known()) {
        CHECK(detail::text_of_site(" at ", here) ==
              " at text_of_site.cpp:" + std::to_string(here.line()));
    }
    CHECK(detail::text_of_site(" at ", {}).empty());
}

TEST_CASE("text_of_site: sizes have units, and tags their path") {
    CHECK(detail::text_of_size(2048) == "2.00 KiB");
    CHECK(detail::text_of_owner({}).empty());
    tagged const outer{"train"};
    tagged const inner{"optimizer"};
    CHECK(detail::text_of_owner(current_tag()) == " of tag \"train/optimizer\"");
}
