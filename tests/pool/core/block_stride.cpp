// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_stride.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

using vram::detail::block_stride;

TEST_CASE("block_stride: the index of a block is the exact quotient, for odd and even sizes") {
    for (std::size_t const bytes : {1U, 3U, 256U, 768U, 4096U, 65280U, 2097152U, 3145728U}) {
        block_stride const stride{bytes};
        CHECK(stride.bytes() == bytes);
        for (std::size_t const i : {0U, 1U, 2U, 7U, 1000U, 8191U}) {
            CHECK(stride.index(i * bytes) == i);
        }
    }
    block_stride const large{std::size_t{3} << 54};
    CHECK(large.index(std::size_t{9} << 54) == 3);
}

TEST_CASE("block_stride: the alignment is the largest power of two that divides the size") {
    CHECK(block_stride{768}.alignment() == 256);
    CHECK(block_stride{4096}.alignment() == 4096);
    CHECK(block_stride{7}.alignment() == 1);
}
