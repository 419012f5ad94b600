// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/tags.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

constexpr auto none = [](tag const&) { return false; };

std::size_t count(tags const& t) { return static_cast<std::size_t>(t.end() - t.begin()); }

/// Returns the epoch of a slot's pending use at a position; 0 is none.
std::uint64_t epoch_at(tags const& t, std::uintptr_t place, std::size_t slot) {
    std::uint64_t latest = 0;
    for (tag const& each : t) {
        if (each.slot == slot && each.overlaps(place, place + 1) && each.epoch > latest) {
            latest = each.epoch;
        }
    }
    return latest;
}

} // namespace

TEST_CASE("tags: neighbouring ranges of one stream become one range with the later epoch") {
    tags t{{0, 100, 1, 0}};
    CHECK(t.merge(tags{{100, 200, 3, 0}}, none));
    CHECK(count(t) == 1);
    CHECK(*t.begin() == tag{0, 200, 3, 0});
}

TEST_CASE("tags: separate ranges keep a gap between them without a use") {
    tags t{{0, 100, 1, 0}};
    CHECK(t.merge(tags{{200, 300, 1, 0}}, none));
    CHECK(count(t) == 2);
    CHECK(t.within(100, 200).empty());
    CHECK(t.within(50, 250).begin()->begin == 50);
}

TEST_CASE("tags: if there is no room, ranges of one stream span a small gap") {
    tags t;
    for (std::uintptr_t i = 0; i <= tags::most; ++i) {
        CHECK(t.merge(tags{{i * 100, i * 100 + 60, i + 1, 7}}, none));
    }
    CHECK(count(t) == 1);
    CHECK(*t.begin() == tag{0, tags::most * 100 + 60, tags::most + 1, 7});
}

TEST_CASE("tags: ranges of one stream do not span a large gap") {
    tags t;
    for (std::uintptr_t i = 0; i < tags::most; ++i) {
        CHECK(t.merge(tags{{i * 100, i * 100 + 10, 1, 7}}, none));
    }
    CHECK_FALSE(t.merge(tags{{tags::most * 100, tags::most * 100 + 10, 1, 7}}, none));
    CHECK(count(t) == tags::most);
}

TEST_CASE("tags: more streams than there is room for are refused, and nothing has changed") {
    tags t;
    for (std::uintptr_t i = 0; i < tags::most; ++i) {
        CHECK(t.merge(tags{{i, i + 1, 1, i}}, none));
    }
    tags const before = t;
    CHECK_FALSE(t.merge(tags{{9, 10, 1, 9}}, none));
    CHECK(count(t) == tags::most);
    for (std::size_t i = 0; i < tags::most; ++i) { CHECK(t.begin()[i] == before.begin()[i]); }
    CHECK(t.merge(tags{{9, 10, 1, 9}}, [](tag const& each) { return each.slot == 0; }));
    CHECK(count(t) == tags::most);
}

TEST_CASE("tags: completed uses are dropped") {
    tags t{{0, 1, 1, 0}};
    CHECK(t.merge(tags{{5, 6, 2, 1}}, none));
    t.drop([](tag const& each) { return each.epoch == 1; });
    CHECK(count(t) == 1);
    t.drop([](tag const&) { return true; });
    CHECK(t.empty());
}

TEST_CASE("tags: a graph-retained range stays retained when merged") {
    tags t{{0, 1, 1, 0}};
    CHECK(t.merge(tags{{1, 2, 1, 1}}, none));
    t.keep_for_capture(0, 2);
    CHECK(epoch_at(t, 0, 0) == 1);
    t.keep_for_capture(0, 1);
    CHECK(t.merge(tags{{2, 3, 5, 0}}, none));
    CHECK(epoch_at(t, 0, 0) == tag::captured);
    CHECK(epoch_at(t, 1, 1) == 1);
}

TEST_CASE("tags: a graph's range and a pending range of its stream stay separate") {
    tags t{{0, 100, 4, 7}};
    CHECK(t.merge(tags{{100, 200, tag::captured, 7}}, none));
    CHECK(count(t) == 2);
    CHECK(t.merge(tags{{200, 300, tag::captured, 7}}, none));
    CHECK(count(t) == 2);
    t.drop([](tag const& each) { return each.epoch == tag::captured; }); // captures are forgotten
    REQUIRE(count(t) == 1);
    CHECK(*t.begin() == tag{0, 100, 4, 7});
}

TEST_CASE("tags: graph-retained ranges become one range over all of them") {
    tags t{{200, 300, tag::captured, 7}};
    CHECK(t.merge(tags{{0, 50, tag::captured, 7}}, none));
    CHECK(t.merge(tags{{50, 200, 4, 7}}, none));
    CHECK(t.merge(tags{{300, 400, 4, 7}}, none));
    REQUIRE(count(t.kept()) == 1);
    CHECK(*t.kept().begin() == tag{0, 300, tag::captured, 7});
    CHECK(tags{{0, 50, 4, 7}}.kept().empty());
}

TEST_CASE("tags: if there is no room, ranges span a gap between those of their own kind") {
    tags t;
    for (std::uintptr_t i = 0; i <= tags::most; ++i) {
        std::uint64_t const epoch = i % 2 == 0 ? tag::captured : 5;
        CHECK(t.merge(tags{{i * 100, i * 100 + 80, epoch, 7}}, none));
    }
    t.drop([](tag const& each) { return each.epoch == tag::captured; });
    for (std::uintptr_t i = 1; i < tags::most; i += 2) { CHECK(epoch_at(t, i * 100, 7) == 5); }
    CHECK(epoch_at(t, 0, 7) == 0);
}

TEST_CASE("tags: however they are merged, no byte loses a pending use") {
    std::mt19937 random{1};
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::vector<std::uint64_t>> must(64, std::vector<std::uint64_t>(6));
        tags                                    t;
        for (int i = 0; i < 8; ++i) {
            std::uintptr_t const begin = random() % 60;
            std::uintptr_t const end   = begin + 1 + random() % 4;
            tag const            piece{begin, end, 1 + random() % 9, random() % 6};
            if (!t.merge(tags{piece}, none)) { continue; }
            for (auto place = begin; place < end; ++place) {
                auto& epoch = must[place][piece.slot];
                epoch       = std::max(epoch, piece.epoch);
            }
        }
        bool enough = true;
        for (std::uintptr_t place = 0; place < 64; ++place) {
            for (std::size_t slot = 0; slot < 6; ++slot) {
                enough = enough && epoch_at(t, place, slot) >= must[place][slot];
            }
        }
        CHECK(enough);
    }
}

TEST_CASE("tags: uses before a position are dropped, and no more") {
    tags t{{100, 200, 1, 0}};
    CHECK(t.merge(tags{{200, 300, 2, 1}}, none));
    CHECK(t.merge(tags{{250, 400, 4, 3}}, none));
    CHECK(t.merge(tags{{100, 200, 3, 2}}, none));
    t.drop_before(100);
    CHECK(count(t) == 4);
    t.drop_before(200); // the first and the last end there
    CHECK(count(t) == 2);
    t.drop_before(220);
    CHECK(count(t) == 2);
    CHECK(epoch_at(t, 219, 1) == 0);
    CHECK(epoch_at(t, 220, 1) == 2);
    CHECK(epoch_at(t, 249, 3) == 0);
    CHECK(epoch_at(t, 250, 3) == 4);
    t.drop_before(399);
    CHECK(count(t) == 1);
    CHECK(*t.begin() == tag{399, 400, 4, 3});
    t.drop_before(400);
    CHECK(t.empty());
}
