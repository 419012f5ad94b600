// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/batch_source.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/typed_source.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <list>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("batch_source: a callable may omit parameters that it does not need") {
    std::array<std::byte, 8> room{};
    std::stop_token const    stop;
    auto const               ask = [&](auto f) { return batch_source{f}.fill(room, 3, stop); };
    CHECK(ask([](std::span<std::byte> to) { return to.size(); }) == 8);
    CHECK(ask([](std::span<std::byte>, std::size_t index) { return index; }) == 3);
    CHECK(ask([](std::span<std::byte>, std::size_t, std::stop_token t) {
              return t.stop_requested() ? std::size_t{1} : std::size_t{2};
          }) == 2);
}

TEST_CASE("batch_source: a source fills, enqueues a copy, or is refused") {
    static_assert(filling_source<std::size_t (*)(std::span<std::byte>)>);
    static_assert(copied_source<std::vector<std::vector<float>>>);
    static_assert(copied_source<std::list<std::span<int const>>>);
    static_assert(!copied_source<std::vector<int>>);
    static_assert(!copied_source<std::vector<std::vector<std::string>>>);
    static_assert(!filling_source<int> && !copied_source<int>);
}

TEST_CASE("batch_source: a range gives one element per batch, then ends") {
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

TEST_CASE("batch_source: an element that does not fit is not written") {
    std::array<std::byte, 4>                     room{};
    batch_source<std::vector<std::vector<char>>> source{{{'a', 'b', 'c', 'd', 'e'}}};
    try {
        (void)decltype(source)::checked(source.fill(room, 7, {}), room.size(), 7);
        FAIL("five bytes do not fit");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::too_large);
        CHECK(e.source_index() == 7);
        CHECK(e.bytes() == 5);
        CHECK(e.limit() == 4);
    }
    CHECK(room[0] == std::byte{0});
}

TEST_CASE("batch_source: a negative result is a failure of the source, with errno") {
    auto const fill = [](std::span<std::byte>, std::size_t) -> long {
        errno = EIO;
        return -1;
    };
    batch_source<std::remove_const_t<decltype(fill)>> source{fill};
    std::array<std::byte, 4>                          room{};
    try {
        (void)decltype(source)::checked(source.fill(room, 2, {}), room.size(), 2);
        FAIL("the source failed");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::source_failed);
        CHECK(e.returned() == -1);
        CHECK(e.source_index() == 2);
        CHECK(std::string{e.what()} ==
              "vram: the source failed at batch 2 (source index 2): it returned -1, and errno is " +
                  std::to_string(EIO) + " (" + std::generic_category().message(EIO) + ")");
    }
    errno = 0;
}

TEST_CASE("batch_source: integers and bool are results, and floating-point numbers are not") {
    static_assert(batch_count<std::size_t> && batch_count<int> && batch_count<long const&> &&
                  batch_count<std::uint32_t> && batch_count<bool> && batch_count<bool&>);
    static_assert(!batch_count<double> && !batch_count<void> && !batch_count<std::byte> &&
                  !batch_count<void*>);
    using fills   = std::size_t (*)(std::span<std::byte>, std::size_t);
    using answers = double (*)(std::span<std::byte>, std::size_t);
    static_assert(filling_source<fills> && callable_source<fills>);
    static_assert(!filling_source<answers> && callable_source<answers>);
    struct enqueues {
        double enqueue(std::span<std::byte>, std::size_t, int) { return 1; }
    };
    static_assert(!enqueueing_source<enqueues, int> && callable_enqueueing_source<enqueues, int>);
}

TEST_CASE("batch_source: true is a whole batch, and false the end") {
    using any = batch_source<std::size_t (*)(std::span<std::byte>)>;
    CHECK(any::checked(true, 64, 0) == 64);
    CHECK(any::checked(false, 64, 0) == 0);
    host_platform::stream const stream{};
    int                         left    = 3;
    std::size_t                 batches = 0;
    auto const                  more    = [&](std::span<std::byte>) { return left-- > 0; };
    for (auto& batch : loader{more, stream, {.batch_bytes = 64, .depth = 0}}) {
        CHECK(batch.size() == 64);
        ++batches;
    }
    CHECK(batches == 3);
    left = 2;
    for (auto& batch : loader{typed<float>([&](std::span<float>) { return left-- > 0; }),
                              stream,
                              {.batch_bytes = 64, .depth = 0}}) {
        CHECK(batch.span<float>().size() == 16);
    }
    CHECK(left == -1);
}
