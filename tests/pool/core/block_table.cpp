// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_table.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

/// Blocks one beside the other.
std::vector<block> row_of(std::size_t count) {
    std::vector<block> row(count);
    for (std::size_t i = 0; i < count; ++i) { row[i].address = i * 256; }
    return row;
}

} // namespace

TEST_CASE("block_table: it agrees with a list of flags over random operations") {
    std::mt19937_64    random{7};
    block_table        table;
    std::vector<block> blocks = row_of(3000);
    std::vector<bool>  in(blocks.size());
    std::size_t        count = 0;
    for (int i = 0; i < 200000; ++i) {
        std::size_t const one = random() % blocks.size();
        if (in[one] && random() % 2 == 0) {
            table.erase(&blocks[one]);
            in[one] = false;
            --count;
        } else if (!in[one]) {
            table.reserve(1);
            table.insert(&blocks[one]);
            in[one] = true;
            ++count;
        }
        std::size_t const other = random() % blocks.size();
        block* const      told  = table.find(blocks[other].address);
        if (told != (in[other] ? &blocks[other] : nullptr)) { FAIL("differs at " << i); }
    }
    CHECK(table.size() == count);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        CHECK_UNARY(table.find(blocks[i].address) == (in[i] ? &blocks[i] : nullptr));
    }
}

TEST_CASE("block_table: blocks of one hash chain are found and erased in any order") {
    static constexpr std::size_t count = 32;
    for (std::size_t first = 0; first < count; ++first) {
        block_table        table;
        std::vector<block> blocks(count); // their products differ in their low bits alone
        std::uintptr_t     inverse = 1;   // of the factor that the table multiplies with
        for (int i = 0; i < 6; ++i) { inverse *= 2 - 0x9E3779B97F4A7C15U * inverse; }
        table.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            blocks[i].address = i * inverse;
            table.insert(&blocks[i]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t const gone = (first + i * 5) % count;
            CHECK_UNARY(table.find(blocks[gone].address) == &blocks[gone]);
            table.erase(&blocks[gone]);
            CHECK_UNARY(table.find(blocks[gone].address) == nullptr);
        }
        CHECK(table.size() == 0);
    }
}

TEST_CASE("block_table: an empty or moved-from table finds nothing") {
    block_table a;
    block       b;
    b.address = 0x1000;
    CHECK(a.find(0) == nullptr);
    CHECK(a.find(b.address) == nullptr);
    a.reserve(1);
    a.insert(&b);
    block_table moved{std::move(a)};
    CHECK(a.find(b.address) == nullptr);
    CHECK_FALSE(a.has_room());
    CHECK(a.size() == 0);
    CHECK(moved.size() == 1);
    CHECK(moved.find(b.address) == &b);
    a = std::move(moved);
    CHECK(a.find(b.address) == &b);
    CHECK(moved.size() == 0);
}

TEST_CASE("block_table: without host memory nothing has changed") {
    block_table        table;
    std::vector<block> blocks = row_of(32);
    table.reserve(1);
    for (block& b : blocks) { table.insert(&b); }
    doubles::bombing armed{1};
    bool             threw = false;
    try {
        table.reserve(1);
    } catch (std::bad_alloc const&) { threw = true; }
    armed.defuse();
    CHECK(threw);
    CHECK(table.size() == 32);
    for (block& b : blocks) { CHECK_UNARY(table.find(b.address) == &b); }
}

TEST_CASE("block_table: a quarter of the smallest table can be used") {
    block_table        table;
    std::vector<block> blocks = row_of(33);
    table.reserve(1);
    while (table.has_room()) { table.insert(&blocks[table.size()]); }
    CHECK(table.size() == 32);
}

TEST_CASE("block_table: if it has room nothing is allocated") {
    block_table        table;
    std::vector<block> blocks = row_of(100'000);
    CHECK_FALSE(table.has_room());
    for (block& b : blocks) {
        if (!table.has_room()) { table.reserve(1); }
        CHECK_UNARY(table.has_room());
        doubles::bombing armed{1};
        table.insert(&b);
        armed.defuse();
    }
    for (block& b : blocks) { CHECK_UNARY(table.find(b.address) == &b); }
}
