// SPDX-License-Identifier: Apache-2.0
#include <vram/base/align.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <initializer_list>

using namespace vram;

TEST_CASE("align: only powers of two are alignments") {
    CHECK(valid_alignment(1));
    CHECK(valid_alignment(256));
    CHECK(valid_alignment(std::size_t{1} << 63));
    CHECK_FALSE(valid_alignment(0));
    CHECK_FALSE(valid_alignment(3));
    CHECK_FALSE(valid_alignment(257));
}

TEST_CASE("align: sizes are rounded up and down") {
    static_assert(align(std::size_t{0}, 256) == 0);
    static_assert(align(std::size_t{1}, 256) == 256 && align(std::size_t{256}, 256) == 256);
    static_assert(align(std::size_t{257}, 256) == 512 && align(std::size_t{7}, 1) == 7);
    static_assert(align_down(511, 256) == 256 && align_down(512, 256) == 512 &&
                  align_down(255, 256) == 0);
    CHECK(align(std::size_t{1000}, 64) == 1024);
}

TEST_CASE("align: a size that does not fit becomes `unsatisfiable`, never a small number") {
    CHECK(align(unsatisfiable, 256) == unsatisfiable);
    CHECK(align(unsatisfiable - 254, 256) == unsatisfiable);
    CHECK(align(unsatisfiable - 255, 256) == unsatisfiable - 255); // a multiple already
    CHECK(align(unsatisfiable, 1) == unsatisfiable);
    CHECK(saturating_add(unsatisfiable - 5, 5) == unsatisfiable);
    CHECK(saturating_add(unsatisfiable - 5, 6) == unsatisfiable);
    CHECK(saturating_add(2, 3) == 5);
}

TEST_CASE("align: addresses are rounded up") {
    alignas(64) std::byte buffer[128];
    CHECK(is_aligned(buffer, 64));
    CHECK_FALSE(is_aligned(buffer + 1, 2));
    CHECK(is_aligned(buffer + 1, 1));
    CHECK(align_address(buffer + 1, 64) == buffer + 64);
    CHECK(align_address(buffer + 64, 64) == buffer + 64);
    CHECK(is_aligned(nullptr, 4096));
}
