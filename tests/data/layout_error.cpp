// SPDX-License-Identifier: Apache-2.0
#include <vram/data/layout_error.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using vram::layout_error;

namespace layout_error_tests {

TEST_CASE("layout_error: every reason has its own text, and the numbers are those given") {
    using r       = layout_error::reason;
    r const all[] = {r::too_large,  r::empty,     r::overlap,
                     r::wrong_size, r::not_whole, r::no_pattern};
    for (r a : all) {
        for (r b : all) {
            CHECK((std::strcmp(layout_error{a}.what(), layout_error{b}.what()) == 0) == (a == b));
        }
    }
    layout_error const e{r::overlap, 7, 5, 2};
    CHECK(e.why() == r::overlap);
    CHECK(e.value() == 7);
    CHECK(e.limit() == 5);
    CHECK(e.dimension() == 2);
}

} // namespace layout_error_tests

TEST_CASE("layout_error: the text has the numbers") {
    using r         = layout_error::reason;
    auto const text = [](r why) { return std::string{layout_error{why, 5, 4, 2}.what()}; };
    CHECK(text(r::wrong_size) ==
          "vram: memory does not have the size of its layout: 5 instead of 4");
    CHECK(text(r::too_large).find("5 in dimension or field 2, of at most 4") != std::string::npos);
    CHECK(text(r::overlap).find("an overlap of 5, and pieces of 4") != std::string::npos);
    CHECK(text(r::not_whole).find("5 bytes, of at most 4") != std::string::npos);
}
