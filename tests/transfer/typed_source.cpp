// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/typed_source.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/transfer/core/batch_source.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <stop_token>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace typed_sources {
constexpr auto all_of_one = [](std::span<float> to, std::size_t index) {
    std::fill(to.begin(), to.end(), static_cast<float>(index));
    return index < 3 ? to.size() : std::size_t{0};
};
using indexed = decltype(typed<float>(all_of_one));
} // namespace typed_sources
using namespace typed_sources;

static_assert(indexed_source<indexed> && batch_source<indexed>::concurrent);

// 3
TEST_CASE("typed_source: a source fills elements in place, up to the capacity") {
    loader      load{typed<float>(all_of_one),
                host_platform::stream{},
                     {.batch_bytes = 10 * sizeof(float) + 3, .producers = 2}};
    std::size_t seen = 0;
    for (auto& b : load) {
        CHECK(b.index() == seen);
        REQUIRE(b.size() == 10 * sizeof(float)); // no part of an element
        auto const at = b.template span<float>();
        CHECK(std::count(at.begin(), at.end(), static_cast<float>(seen)) == 10);
        ++seen;
    }
    CHECK(seen == 3);
}

TEST_CASE("typed_source: it receives the arguments that it declares") {
    std::vector<std::byte> room(16);
    std::stop_source       stop;
    auto                   plain = typed<short>([](std::span<short> to) { return to.size() - 1; });
    auto told = typed<short>([](std::span<short> to, std::size_t index, std::stop_token const& s) {
        return s.stop_requested() ? 0 : to.size() - index;
    });
    static_assert(filling_source<decltype(plain)> && !indexed_source<decltype(plain)>);
    CHECK(plain(room) == 7 * sizeof(short));
    CHECK(told(room, 3, stop.get_token()) == 5 * sizeof(short));
    stop.request_stop();
    CHECK(told(room, 3, stop.get_token()) == 0);
}

TEST_CASE("typed_source: more elements than fit is an error with both numbers") {
    std::vector<std::byte> room(17);
    batch_source source{typed<int>([](std::span<int> to, std::size_t) { return to.size() + 1; })};
    try {
        (void)source.checked(source.fill(room, 5, {}), room.size(), 5);
        FAIL("there was no room");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::too_large);
        CHECK(e.source_index() == 5);
        CHECK(e.bytes() == 20);
        CHECK(e.limit() == 17);
    }
    batch_source huge{typed<int>([](std::span<int>, std::size_t) { return ~std::size_t{0}; })};
    CHECK_THROWS_AS((void)huge.checked(huge.fill(room, 0, {}), room.size(), 0),
                    loader_error); // also if the number of bytes overflows
}

TEST_CASE("typed_source: a negative number of elements is a failure of the source") {
    std::vector<std::byte> room(16);
    batch_source           source{typed<short>([](std::span<short>, std::size_t) { return -2L; })};
    try {
        (void)source.checked(source.fill(room, 5, {}), room.size(), 5);
        FAIL("the source failed");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::source_failed);
        CHECK(e.returned() == -2);
    }
    batch_source count{typed<short>([](std::span<short> to) { return int(to.size()); })};
    CHECK(count.checked(count.fill(room, 0, {}), room.size(), 0) == 16);
}

TEST_CASE("typed_source: true means all elements that fit, and no part of another one") {
    auto        full = typed<double>([](std::span<double> to, std::size_t index) {
        std::fill(to.begin(), to.end(), 2.0);
        return index < 2;
    });
    loader      load{full, host_platform::stream{}, {.batch_bytes = 4 * sizeof(double) + 5}};
    std::size_t seen = 0;
    for (auto& b : load) {
        CHECK(b.template span<double>().size() == 4);
        ++seen;
    }
    CHECK(seen == 2);
}

TEST_CASE("typed_source: a batch with no room for one element is an error, and not the end") {
    using large      = std::array<float, 100>;
    auto const check = [](auto fill) {
        loader load{typed<large>(fill), host_platform::stream{}, {.batch_bytes = 64}};
        try {
            for (auto& b : load) { (void)b; }
            FAIL("no element fits");
        } catch (loader_error const& e) {
            CHECK(e.why() == loader_error::reason::too_large);
            CHECK(e.bytes() == sizeof(large));
            CHECK(e.limit() == 64);
        }
    };
    check([](std::span<large> to, std::size_t) { return to.size(); });
    check([](std::span<large> to) { return static_cast<int>(to.size()); });
    check([](std::span<large>, std::size_t, std::stop_token const&) { return true; });
}
