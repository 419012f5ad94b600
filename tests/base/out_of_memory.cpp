// SPDX-License-Identifier: Apache-2.0
#include <vram/base/out_of_memory.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace vram;

TEST_CASE("out_of_memory: it is a bad_alloc with numbers, and has no text of its own") {
    static_assert(std::is_base_of_v<std::bad_alloc, out_of_memory>);
    static_assert(std::is_nothrow_copy_constructible_v<out_of_memory>);
    try {
        throw out_of_memory{{.asked = 100, .rounded = 256, .alignment = 256, .stream = 7}};
    } catch (std::bad_alloc const& e) {
        CHECK(std::string{e.what()} == "vram: out of memory (vram::explain(e) has the numbers)");
        auto const& numbers = dynamic_cast<out_of_memory const&>(e).numbers();
        CHECK(numbers.asked == 100);
        CHECK(numbers.rounded == 256);
        CHECK(numbers.stream == 7);
        CHECK(numbers.live == 0);
    }
}

TEST_CASE("out_of_memory: a layer with more numbers adds them and rethrows") {
    try {
        try {
            throw out_of_memory{{.asked = 100}};
        } catch (out_of_memory& e) {
            e.numbers().live = 50;
            throw;
        }
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 100);
        CHECK(e.numbers().live == 50);
    }
}
