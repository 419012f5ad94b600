// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/overlapping.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

namespace overlapping_tests {

using address = std::uintptr_t;
struct part {
    address end = 0;
};

template <class Map>
std::vector<address> found(Map& ranges, address from, address to) {
    std::vector<address> begins;
    vram::detail::for_overlapping(ranges, from, to, [&](auto i) { begins.push_back(i->first); });
    return begins;
}

TEST_CASE("overlapping: exactly the ranges that share an address with another are visited") {
    std::map<address, address> plain{{10, 20}, {20, 30}, {40, 50}};
    std::map<address, part>    parts{{10, {20}}, {20, {30}}, {40, {50}}};
    for (address from = 0; from != 60; ++from) {
        for (address to = from + 1; to != 61; ++to) {
            std::vector<address> expected;
            for (auto const& [begin, end] : plain) {
                if (begin < to && from < end) { expected.push_back(begin); }
            }
            CHECK(found(plain, from, to) == expected);
            CHECK(found(parts, from, to) == expected);
        }
    }
}

TEST_CASE("overlapping: a visit may erase the range") {
    std::map<address, address> ranges{{10, 20}, {20, 30}, {40, 50}};
    vram::detail::for_overlapping(ranges, 15, 45, [&](auto i) { ranges.erase(i); });
    CHECK(ranges.empty());
}

} // namespace overlapping_tests
