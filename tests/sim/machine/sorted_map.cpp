// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sorted_map.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <random>

using namespace vram;
using namespace vram::detail;

namespace {

void check_equal(sorted_map<int>& m, std::map<std::uintptr_t, int> const& model) {
    REQUIRE(m.size() == model.size());
    CHECK(m.empty() == model.empty());
    auto it = m.begin();
    for (auto const& [key, value] : model) {
        REQUIRE(it != m.end());
        REQUIRE(it.key() == key);
        REQUIRE(*it == value);
        ++it;
    }
    CHECK(it == m.end());
    for (auto each = model.rbegin(); each != model.rend(); ++each) {
        REQUIRE((--it).key() == each->first);
    }
}

/// Compares lookups of `key` with the model.
void check_lookup(sorted_map<int>& m, std::map<std::uintptr_t, int>& model, std::uintptr_t key) {
    auto const after    = model.upper_bound(key);
    auto const of_after = m.upper_bound(key);
    REQUIRE((of_after == m.end()) == (after == model.end()));
    if (after != model.end()) { REQUIRE(of_after.key() == after->first); }
    int const* const before = m.before(key);
    REQUIRE((before == nullptr) == (after == model.begin()));
    if (before != nullptr) { REQUIRE(*before == std::prev(after)->second); }
    auto const found = m.find(key);
    REQUIRE((found == m.end()) == (model.count(key) == 0));
    if (found != m.end()) { REQUIRE(*found == model[key]); }
}

} // namespace

TEST_CASE("sorted_map: an empty map has no value before any key") {
    sorted_map<int> m;
    CHECK(m.empty());
    CHECK(m.before(~std::uintptr_t{}) == nullptr);
    CHECK(m.upper_bound(0) == m.end());
    CHECK(m.find(0) == m.end());
    m.erase(std::uintptr_t{7});
    CHECK(m.begin() == m.end());
}

TEST_CASE("sorted_map: agrees with std::map over random keys, also in ascending order") {
    for (std::uintptr_t const range : {40U, 1000U, 100000U}) {
        std::mt19937_64               random{range};
        sorted_map<int>               m;
        std::map<std::uintptr_t, int> model;
        for (int step = 0; step < 4000; ++step) {
            bool const           grows = step % 1000 < 700;
            std::uintptr_t const key =
                step % 2000 < 400 ? static_cast<std::uintptr_t>(step) * 8 : random() % range * 8;
            if (random() % 10 < (grows ? 8U : 2U)) {
                m[key]     = step;
                model[key] = step;
            } else if (auto const at = model.lower_bound(key); at != model.end()) {
                bool const last  = std::next(at) == model.end();
                auto const next  = m.erase(m.find(at->first));
                auto const after = model.erase(at);
                REQUIRE((next == m.end()) == last);
                if (!last) { REQUIRE(next.key() == after->first); }
            }
            check_lookup(m, model, key);
            check_lookup(m, model, random() % range * 8 + 4);
            if (step % 500 == 499) { check_equal(m, model); }
        }
        while (!m.empty()) { m.erase(m.begin().key()); }
        CHECK(m.begin() == m.end());
    }
}

TEST_CASE("sorted_map: values do not move") {
    sorted_map<int> m;
    int* const      first = &m[1000];
    *first                = 7;
    for (std::uintptr_t key = 0; key < 1000; ++key) { m[key] = 1; }
    for (std::uintptr_t key = 2000; key > 1000; --key) { m[key] = 1; }
    CHECK(&m[1000] == first);
    CHECK(*first == 7);
    CHECK(m.size() == 2001);
    for (std::uintptr_t key = 0; key < 1000; ++key) { m.erase(key); }
    CHECK(m.begin().key() == 1000);
    CHECK(m.before(1500) == &m[1500]);
    CHECK(m.before(1000) == first);
}
