// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/size_classes.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>

using namespace vram;
using namespace vram::detail;

TEST_CASE("size_classes: every size has the smallest class that fits") {
    std::size_t index = 0;
    for (std::size_t bytes = 1; bytes <= 100000; ++bytes) {
        if (bytes > size_classes::bytes(index)) { ++index; }
        if (size_classes::of(bytes) != index) { FAIL("another class"); }
        if (size_classes::bytes(index) < bytes) { FAIL("too small"); }
    }
    CHECK(index > 20);
}

TEST_CASE("size_classes: there are four classes for each power of two, up to the largest") {
    CHECK(size_classes::bytes(0) == 256);
    CHECK(size_classes::bytes(3) == 1024);
    CHECK(size_classes::bytes(4) == 1280);
    for (std::size_t i = 8; i < 200; ++i) {
        CHECK(size_classes::bytes(i) == 2 * size_classes::bytes(i - 4));
    }
    CHECK(size_classes::bytes(size_classes::of(std::size_t{1} << 56)) == std::size_t{1} << 56);
}

TEST_CASE(
    "size_classes: with an alignment the class is a multiple of it, and only slightly larger") {
    for (std::size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
        for (std::size_t bytes = 1; bytes < 1 << 22; bytes += 1 + bytes / 7) {
            std::size_t const found = size_classes::bytes(size_classes::of(bytes, alignment));
            if (found < bytes || found % alignment != 0) { FAIL("does not hold"); }
            std::size_t const most = 2 * (bytes > alignment ? bytes : alignment);
            if (found > (most > 256 ? most : 256)) { FAIL("too large"); }
        }
    }
    CHECK(size_classes::bytes(size_classes::of(1, 4096)) == 4096);
    CHECK(size_classes::bytes(size_classes::of(4097, 4096)) == 8192);
}
