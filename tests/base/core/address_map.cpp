// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/address_map.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <random>
#include <unordered_map>
#include <utility>

using namespace vram;
using namespace vram::detail;

template class vram::detail::address_map<int>;

TEST_CASE("address_map: it agrees with std::map over random operations") {
    std::mt19937_64                         random{7};
    address_map<int>                        map;
    std::unordered_map<std::uint64_t, int*> model;
    int                                     values[64];
    for (int i = 0; i < 200000; ++i) {
        std::uint64_t const key = (random() % 3000) * 256; // as addresses are
        bool const          in  = model.contains(key);
        if (in && random() % 2 == 0) {
            map.erase(key);
            model.erase(key);
        } else if (!in) {
            int* const value = &values[random() % 64];
            map.reserve(1);
            map.insert(key, value);
            model.emplace(key, value);
        }
        std::uint64_t const other = (random() % 3000) * 256;
        auto const          found = model.find(other);
        int* const          told  = map.find(other);
        if (told != (found == model.end() ? nullptr : found->second)) { FAIL("differs at " << i); }
    }
    CHECK(map.size() == model.size());
    for (auto const& [key, value] : model) { CHECK(map.find(key) == value); }
}

TEST_CASE("address_map: for_each visits each entry once") {
    address_map<int> map;
    map.for_each([](std::uint64_t, int*) { FAIL("an empty map has no entry"); });
    int values[300];
    map.reserve(300);
    for (std::uint64_t i = 0; i < 300; ++i) { map.insert(i * 256, &values[i]); }
    for (std::uint64_t i = 0; i < 300; i += 3) { map.erase(i * 256); }
    std::unordered_map<std::uint64_t, int*> seen;
    map.for_each([&](std::uint64_t key, int* value) { CHECK(seen.emplace(key, value).second); });
    CHECK(seen.size() == map.size());
    for (auto const& [key, value] : seen) { CHECK(map.find(key) == value); }
}

TEST_CASE("address_map: keys that collide, and the key 0, are found and erased in any order") {
    address_map<int> map;
    int              value = 0;
    map.reserve(3);
    for (std::uint64_t const key : {0ULL, 1ULL << 63, ~0ULL}) { map.insert(key, &value); }
    map.erase(0);
    CHECK(map.find(0) == nullptr);
    CHECK(map.find(~0ULL) == &value);
    CHECK(map.find(1ULL << 63) == &value);
}

TEST_CASE("address_map: an empty or moved-from map finds nothing") {
    address_map<int> a;
    CHECK(a.find(5) == nullptr);
    int value = 0;
    a.reserve(1);
    a.insert(5, &value);
    address_map<int> b{std::move(a)};
    CHECK(a.find(5) == nullptr);
    CHECK(a.size() == 0);
    CHECK(b.find(5) == &value);
    a = std::move(b);
    CHECK(a.find(5) == &value);
    CHECK(b.size() == 0);
}

TEST_CASE("address_map: without host memory nothing has changed") {
    address_map<int> map;
    int              value = 0;
    map.reserve(1);
    for (std::uint64_t i = 0; i < 32; ++i) { map.insert(i, &value); }
    doubles::bombing armed{1};
    bool             threw = false;
    try {
        map.reserve(1);
    } catch (std::bad_alloc const&) { threw = true; }
    armed.defuse();
    CHECK(threw);
    CHECK(map.size() == 32);
    CHECK(map.find(31) == &value);
}

TEST_CASE("address_map: after reserve an insert does not allocate, at any size") {
    address_map<int> map;
    int              value = 0;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        map.reserve(1);
        doubles::bombing armed{1};
        map.insert(i * 256, &value);
        armed.defuse();
    }
    for (std::uint64_t i = 0; i < 100'000; ++i) { CHECK_UNARY(map.find(i * 256) == &value); }
}

TEST_CASE(
    "address_map: a quarter of the smallest table can be used, and a missing key is not found") {
    address_map<int> map;
    int              value = 0;
    map.reserve(1);
    {
        doubles::bombing armed{1};
        map.reserve(32);
        while (map.size() < 32) { map.insert(map.size(), &value); }
        armed.defuse();
    }
    CHECK(map.find(map.size()) == nullptr);
    doubles::bombing armed{1};
    CHECK_THROWS_AS(map.reserve(1), std::bad_alloc);
    armed.defuse();
}
