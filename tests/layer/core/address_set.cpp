// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/core/address_set.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace vram;
using namespace vram::detail;
using doubles::at;

TEST_CASE("address_set: an empty set contains nothing, not even null") {
    address_set set;
    CHECK_FALSE(set.contains(nullptr));
    CHECK_FALSE(set.contains(at(256)));
    CHECK_FALSE(set.erase(at(256)));
    set.reserve(1);
    CHECK_FALSE(set.contains(nullptr));
    CHECK_FALSE(set.erase(at(256)));
}

TEST_CASE("address_set: null is never in the set") {
    address_set set;
    set.reserve(1);
    set.insert(at(256));
    CHECK_FALSE(set.contains(nullptr));
    CHECK_FALSE(set.erase(nullptr));
    CHECK(set.size() == 1);
    CHECK(set.erase(at(256)));
}

TEST_CASE("address_set: random inserts and erases agree with std::set") {
    for (std::uintptr_t const step :
         {std::uintptr_t{1}, std::uintptr_t{256}, std::uintptr_t{1} << 32}) {
        address_set              set;
        std::set<std::uintptr_t> model;
        std::mt19937_64          random{step};
        for (int i = 0; i < 20'000; ++i) {
            std::uintptr_t const address = step * (1 + random() % 300);
            if (model.contains(address)) {
                CHECK(set.contains(at(address)));
                CHECK(set.erase(at(address)));
                model.erase(address);
            } else {
                CHECK_FALSE(set.contains(at(address)));
                CHECK_FALSE(set.erase(at(address)));
                set.reserve(1);
                set.insert(at(address));
                model.insert(address);
            }
            CHECK(set.size() == model.size());
        }
        for (std::uintptr_t const address : model) { CHECK(set.erase(at(address))); }
        CHECK(set.size() == 0);
    }
}

TEST_CASE("address_set: reserve makes room, and a failed reserve changes nothing") {
    address_set set;
    set.reserve(100);
    auto const before = doubles::host_allocations();
    for (std::uintptr_t i = 1; i <= 100; ++i) { set.insert(at(i * 256)); }
    CHECK(doubles::host_allocations() == before);
    bool threw = false;
    {
        doubles::bombing armed{1};
        try {
            set.reserve(1000);
        } catch (std::bad_alloc const&) { threw = true; }
    }
    CHECK(threw);
    for (std::uintptr_t i = 1; i <= 100; ++i) { CHECK(set.contains(at(i * 256))); }
}

TEST_CASE("address_set: a moved-from set is empty and usable") {
    address_set first;
    first.reserve(1);
    first.insert(at(512));
    address_set second = std::move(first);
    CHECK(second.contains(at(512)));
    CHECK(first.size() == 0);
    CHECK_FALSE(first.contains(at(512)));
    first.reserve(1);
    first.insert(at(256));
    CHECK(first.contains(at(256)));
    first = std::move(second);
    CHECK(first.contains(at(512)));
    CHECK_FALSE(first.contains(at(256)));
}
