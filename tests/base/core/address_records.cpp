// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/address_records.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <random>
#include <utility>

using vram::detail::address_records;

namespace {
/// A record that counts the live objects of its type.
struct counted {
    int value = 0;
    counted() { ++live; }
    counted(counted const& other) : value{other.value} { ++live; }
    counted& operator=(counted const&) = default;
    ~counted() { --live; }

    static inline int live = 0;
};
} // namespace

template class vram::detail::address_records<counted>;

TEST_CASE("address_records: random operations agree with std::map") {
    std::mt19937               random{1};
    address_records<int>       table;
    std::map<void const*, int> model;
    for (int i = 0; i < 20'000; ++i) {
        auto const* const p = reinterpret_cast<char const*>(std::size_t{64} * (1 + random() % 200));
        if (random() % 2 == 0) {
            table.at(p) = model[p] = i;
        } else {
            int        taken = -1;
            auto const found = model.find(p);
            REQUIRE(table.take(p, taken) == (found != model.end()));
            REQUIRE(taken == (found != model.end() ? found->second : -1));
            if (found != model.end()) { model.erase(found); }
        }
        REQUIRE(table.size() == model.size());
    }
    long sum = 0, expected = 0;
    table.for_each([&](int each) { sum += each; });
    for (auto const& [p, each] : model) {
        expected += each;
        REQUIRE(*table.find(p) == each);
    }
    CHECK(sum == expected);
}

TEST_CASE("address_records: each record is destroyed once, also after moves") {
    {
        address_records<counted> one;
        for (std::size_t i = 1; i <= 10; ++i) { one.at(reinterpret_cast<void*>(i * 16)).value = 1; }
        CHECK(counted::live == 10);
        address_records<counted> two{std::move(one)};
        CHECK(two.size() == 10);
        address_records<counted> three;
        three.at(&three).value = 2;
        three                  = std::move(two);
        CHECK(three.size() == 10);
        counted taken;
        CHECK(three.take(reinterpret_cast<void*>(16), taken));
        CHECK_FALSE(three.take(reinterpret_cast<void*>(16), taken));
        CHECK(taken.value == 1);
    }
    CHECK(counted::live == 0);
}
