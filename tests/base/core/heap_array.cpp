// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/heap_array.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

using namespace vram;
using namespace vram::detail;

template class vram::detail::heap_array<std::unique_ptr<int>>;

TEST_CASE("heap_array: elements keep their order when it grows") {
    heap_array<std::unique_ptr<int>> a;
    for (int i = 0; i < 100; ++i) { a.push(std::make_unique<int>(i)); }
    CHECK(a.size() == 100);
    for (std::size_t i = 0; i < 100; ++i) { CHECK(*a[i] == static_cast<int>(i)); }
    CHECK(*a.take(10) == 10);
    CHECK(*a[10] == 99);
    CHECK(*a.take(98) == 98);
    CHECK(a.size() == 98);
    int sum = 0;
    for (auto const& each : std::as_const(a)) { sum += *each; }
    CHECK(sum == 4950 - 10 - 98);
}

TEST_CASE("heap_array: a move leaves nothing behind, and destroys the previous elements") {
    auto const                       alive = std::make_shared<int>(1);
    heap_array<std::shared_ptr<int>> a, b;
    a.push(alive);
    b.push(alive);
    b = std::move(a);
    CHECK(alive.use_count() == 2);
    CHECK(a.size() == 0);
    heap_array<std::shared_ptr<int>> const c{std::move(b)};
    CHECK(c.size() == 1);
    CHECK(alive.use_count() == 2);
}

TEST_CASE("heap_array: without host memory nothing has changed") {
    heap_array<int> a;
    a.push(1);
    while (a.size() < a.capacity()) { a.push(2); }
    auto const       size = a.size();
    doubles::bombing armed{1};
    bool             threw = false;
    try {
        a.push(3);
    } catch (std::bad_alloc const&) { threw = true; }
    armed.defuse();
    CHECK(threw);
    CHECK(a.size() == size);
    a.push(3);
    CHECK(a[size] == 3);
}
