// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/batch_source.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <array>
#include <list>
#include <string>
#include <vector>

using namespace vram;

TEST_CASE("batch_source: a callable may leave out what it does not need") {
    std::array<std::byte, 8> room{};
    std::stop_token const    stop;
    auto const               ask = [&](auto f) { return batch_source{f}.fill(room, 3, stop); };
    CHECK(ask([](std::span<std::byte> to) { return to.size(); }) == 8);
    CHECK(ask([](std::span<std::byte>, std::size_t index) { return index; }) == 3);
    CHECK(ask([](std::span<std::byte>, std::size_t, std::stop_token t) {
              return t.stop_requested() ? std::size_t{1} : std::size_t{2};
          }) == 2);
}

TEST_CASE("batch_source: what fills, what is copied, and what is neither") {
    static_assert(filling_source<std::size_t (*)(std::span<std::byte>)>);
    static_assert(copied_source<std::vector<std::vector<float>>>);
    static_assert(copied_source<std::list<std::span<int const>>>);
    static_assert(!copied_source<std::vector<int>>);
    static_assert(!copied_source<std::vector<std::vector<std::string>>>);
    static_assert(!filling_source<int> && !copied_source<int>);
}

TEST_CASE("batch_source: a range gives element after element, then nothing") {
    std::array<std::byte, 8>                     room{};
    std::stop_token const                        stop;
    batch_source<std::vector<std::vector<char>>> source{{{'a', 'b'}, {}, {'c'}}};
    CHECK(source.fill(room, 0, stop) == 2);
    CHECK(room[1] == std::byte{'b'});
    CHECK(source.fill(room, 1, stop) == 1);
    CHECK(room[0] == std::byte{'c'});
    CHECK(source.fill(room, 2, stop) == 0);
    CHECK(source.fill(room, 3, stop) == 0);
}

TEST_CASE("batch_source: what does not fit is not written") {
    std::array<std::byte, 4>                     room{};
    batch_source<std::vector<std::vector<char>>> source{{{'a', 'b', 'c', 'd', 'e'}}};
    try {
        (void)source.fill(room, 7, {});
        FAIL("five bytes do not fit");
    } catch (loader_error const& e) {
        CHECK(e.index() == 7);
        CHECK(e.bytes() == 5);
        CHECK(e.limit() == 4);
    }
    CHECK(room[0] == std::byte{0});
}
