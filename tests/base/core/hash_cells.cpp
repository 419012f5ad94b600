// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/hash_cells.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <set>
#include <utility>

using namespace vram;
using namespace vram::detail;

template class vram::detail::hash_cells<int>;

namespace {

std::size_t half_of(std::size_t cells) { return cells / 2; }

} // namespace

TEST_CASE("hash_cells: before the first reserve there is one empty cell") {
    hash_cells<int> const none;
    CHECK(none.count() == 1);
    for (std::uint64_t const key : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        CHECK(none.home(key) == 0);
    }
    CHECK(none[0] == 0);
    CHECK(none.after(0) == 0);
}

TEST_CASE("hash_cells: the number of cells suffices for the load, and never decreases") {
    hash_cells<int> const none;
    CHECK(none.enough(1, half_of) == 128);
    CHECK(none.enough(64, half_of) == 128);
    CHECK(none.enough(65, half_of) == 256);
    CHECK(none.enough(1000, half_of) == 2048);
    hash_cells<int> const some{256};
    CHECK(some.enough(1, half_of) == 256);
    CHECK(some.enough(129, half_of) == 512);
}

TEST_CASE("hash_cells: new cells are zero, and every key has one of them") {
    hash_cells<int> const cells{256};
    CHECK(cells.count() == 256);
    std::set<std::size_t> homes;
    for (std::uint64_t i = 0; i < 256; ++i) {
        CHECK_UNARY(cells[i] == 0);
        std::size_t const home = cells.home(i * 512); // as addresses are
        CHECK_UNARY(home < 256);
        homes.insert(home);
    }
    CHECK(homes.size() > 128); // well mixed
}

TEST_CASE("hash_cells: the search continues at the first cell after the last") {
    hash_cells<int> const cells{128};
    CHECK(cells.after(5) == 6);
    CHECK(cells.after(127) == 0);
    CHECK(cells.distance(5, 6) == 1);
    CHECK(cells.distance(127, 2) == 3);
    CHECK(cells.distance(7, 7) == 0);
}

TEST_CASE("hash_cells: a moved-from table has no cells") {
    hash_cells<int> a{128};
    a[3]                   = 7;
    std::size_t const home = a.home(512);
    REQUIRE(home != 0);
    hash_cells<int> b{std::move(a)};
    CHECK(b[3] == 7);
    CHECK(b.home(512) == home);
    CHECK(a.home(512) == 0);
    CHECK(a.count() == 1);
    CHECK(a[0] == 0);
    a = std::move(b);
    CHECK(a[3] == 7);
    CHECK(b.count() == 1);
    auto& self = a;
    a          = std::move(self);
    CHECK(a[3] == 7);
}

TEST_CASE("hash_cells: without host memory std::bad_alloc is thrown") {
    doubles::bombing armed{1};
    CHECK_THROWS_AS(hash_cells<int>{128}, std::bad_alloc);
    armed.defuse();
}
