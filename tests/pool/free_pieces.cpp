// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/free_pieces.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>

using namespace vram;

TEST_CASE("free_pieces: pieces are counted by size, and an empty piece is none") {
    free_pieces all;
    all.add(0);
    all.add(100, 0);
    CHECK(all == free_pieces{});
    all.add(256, 3);
    all.add(511);
    all.add(512);
    CHECK(all.bytes == 3 * 256 + 511 + 512);
    CHECK(all.count == 5);
    CHECK(all.largest == 512);
    CHECK(all.by_size[8] == 4);
    CHECK(all.by_size[9] == 1);
    CHECK(all.squares == 3.0 * 256 * 256 + 511.0 * 511 + 512.0 * 512);
    all.add(std::size_t{1} << 63);
    CHECK(all.by_size[63] == 1);
}

TEST_CASE("free_pieces: two are combined by sums and the larger maximum") {
    free_pieces a{.releasable = 256}, b{.releasable = 512};
    a.add(256, 3);
    b.add(512);
    b.add(300);
    free_pieces both{.releasable = 768};
    both.add(256, 3);
    both.add(512);
    both.add(300);
    free_pieces c = a;
    c.add(b);
    CHECK(c == both);
    b.add(a);
    CHECK(b == both);
    both.add(free_pieces{});
    CHECK(b == both);
}
