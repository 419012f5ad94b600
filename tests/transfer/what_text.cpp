// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/what_text.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>

using namespace vram;

TEST_CASE("what_text: it is the text that was built, or a literal if building it throws") {
    what_text const built{"literal", [] { return std::string{"text with 7"}; }};
    what_text const copy = built;
    CHECK(std::string{copy.c_str()} == "text with 7");
    CHECK(copy.c_str() == built.c_str());
    what_text const none{"literal", []() -> std::string { throw std::bad_alloc{}; }};
    CHECK(std::string{none.c_str()} == "literal");
    CHECK(std::string{what_text{"literal"}.c_str()} == "literal");
}

TEST_CASE("what_text: every exception has a text") {
    CHECK(what_of(std::make_exception_ptr(std::runtime_error{"news"})) == "news");
    CHECK(what_of(std::make_exception_ptr(7)) == "an exception that is not a std::exception");
    CHECK(what_of(nullptr).empty());
}
