// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_parts.hpp> // first: the header must stand alone

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // pair
#include <vector>  // vector

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

using pieces = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;

sim_inner_block& put_part(sim_parts& parts, std::uintptr_t begin, std::size_t bytes, bool freed) {
    return parts.put({.begin = begin, .bytes = bytes, .freed = freed});
}
pieces all_pieces(sim_parts& parts, std::uintptr_t begin, std::uintptr_t end) {
    pieces all;
    parts.for_each(begin, end, [&](sim_inner_block const&, std::uintptr_t from, std::uintptr_t to) {
        all.emplace_back(from, to);
    });
    return all;
}

} // namespace

TEST_CASE("sim_parts: adjacent and overlapping chunks become one") {
    sim_parts parts;
    parts.add_chunk(100, 200);
    parts.add_chunk(300, 400);
    CHECK_FALSE(parts.chunk_at(250).found);
    CHECK(parts.chunk_at(250).begin == 200);
    CHECK(parts.chunk_at(250).end == 300);
    parts.add_chunk(200, 300);
    CHECK(parts.chunk_at(250).begin == 100);
    CHECK(parts.chunk_at(250).end == 400);
    parts.add_chunk(150, 160);
    CHECK(parts.chunk_at(399).begin == 100);
    CHECK_FALSE(parts.chunk_at(400).found);
    parts.remove_chunk(150, 350);
    CHECK(parts.chunk_at(149).found);
    CHECK_FALSE(parts.chunk_at(150).found);
    CHECK(parts.chunk_at(350).begin == 350);
    parts.remove_chunk(0, 1000);
    CHECK(parts.empty());
}

TEST_CASE("sim_parts: a new block leaves pieces of freed blocks around it") {
    sim_parts parts;
    parts.add_chunk(0, 1000);
    put_part(parts, 100, 300, true);
    put_part(parts, 400, 100, true);
    put_part(parts, 200, 250, false);
    CHECK(all_pieces(parts, 0, 1000) == pieces{{100, 200}, {200, 450}, {450, 500}});
    CHECK(parts.at(150)->bytes == 300);
    CHECK(parts.at(300)->bytes == 250);
    CHECK(parts.at(480)->begin == 400);
    CHECK(parts.at(500) == nullptr);
    CHECK(parts.before(700)->begin == 400);
    CHECK(all_pieces(parts, 150, 220) == pieces{{150, 200}, {200, 220}});

    put_part(parts, 240, 10, true); // in place of a live block, which leaves only its begin
    CHECK(all_pieces(parts, 0, 1000) == pieces{{100, 200}, {200, 240}, {240, 250}, {450, 500}});
    parts.remove_chunk(0, 1000);
    CHECK(all_pieces(parts, 0, 1000).empty());
}

TEST_CASE("sim_parts: a block within a freed one leaves two pieces of it") {
    sim_parts parts;
    parts.add_chunk(0, 1000);
    put_part(parts, 0, 1000, true);
    put_part(parts, 400, 100, false);
    CHECK(all_pieces(parts, 0, 1000) == pieces{{0, 400}, {400, 500}, {500, 1000}});
    CHECK(parts.at(900)->begin == 0);
    CHECK(parts.at(900)->freed);
}
