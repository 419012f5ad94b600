// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/direct_transfer.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/staging/core/thread_team.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;
using namespace vram::detail;

TEST_CASE("direct_transfer: every byte is moved once, by any thread") {
    for (unsigned threads = 1; threads <= 4; ++threads) {
        thread_team<host_platform> all{{}, threads};
        for (std::size_t const bytes : {0U, 1U, 9U, 10U, 11U, 1000U, 1001U}) {
            std::atomic<std::size_t> moved = 0, calls = 0, large = 0;
            auto const               move = [&](std::size_t offset, std::size_t n) {
                moved += n;
                ++calls;
                large += n > 10 || n == 0 || offset % 10 != 0 ? 1U : 0U;
            };
            direct_transfer transfer{bytes, 10, move};
            all.run([&](unsigned) noexcept { transfer.run(); });
            CHECK(moved == bytes);
            CHECK(calls == transfer.pieces());
            CHECK(large == 0);
            CHECK_FALSE(transfer.failed());
            CHECK(transfer.whole() == bytes);
            CHECK(transfer.cause() == nullptr);
        }
    }
}

TEST_CASE("direct_transfer: if a piece fails, all bytes before it are complete") {
    for (unsigned threads = 1; threads <= 4; ++threads) {
        thread_team<host_platform> all{{}, threads};
        for (std::size_t at = 0; at < 100; at += 10) {
            std::atomic<std::size_t> before = 0;
            auto const               move   = [&](std::size_t offset, std::size_t n) {
                if (offset >= at) { throw std::runtime_error{"here"}; }
                before += n;
            };
            direct_transfer transfer{95, 10, move};
            all.run([&](unsigned) noexcept { transfer.run(); });
            CHECK(transfer.failed());
            CHECK(transfer.whole() == at);
            CHECK(before == at);
            CHECK_THROWS_AS(std::rethrow_exception(transfer.cause()), std::runtime_error);
        }
    }
}
