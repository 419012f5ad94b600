// SPDX-License-Identifier: Apache-2.0
#include <vram/base/call_stack.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace vram;

static_assert(sizeof(call_stack) == sizeof(void*), "an event stores it in one word");

TEST_CASE("call_stack: without frames it is empty") {
    CHECK(call_stack{}.empty());
    CHECK(call_stack{}.size() == 0);
    CHECK(call_stack::current(0) == call_stack{});
}

#if __has_include(<unwind.h>)
TEST_CASE("call_stack: it has at most the frames that were requested, the innermost first") {
    call_stack const here = call_stack::current(3), more = call_stack::current(8);
    REQUIRE(here.size() == 3);
    REQUIRE(more.size() >= 3);
    CHECK(here != more);
    CHECK(here[1] == more[1]); // the caller of this function
}
#endif

TEST_CASE("frame_text: a function of a library has a name, an unknown address only its number") {
    auto const        inside = reinterpret_cast<std::uintptr_t>(&std::qsort) + 1;
    std::string const known  = frame_text{reinterpret_cast<void const*>(inside)}.c_str();
    CAPTURE(known);
#if __has_include(<dlfcn.h>)
    CHECK(known.find("+0x") != std::string::npos);
#endif
    CHECK(std::string{frame_text{reinterpret_cast<void const*>(std::uintptr_t{0x10})}.c_str()} ==
          "0x10");
}
