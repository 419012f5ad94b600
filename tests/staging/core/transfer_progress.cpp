// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/transfer_progress.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/staging/core/thread_team.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <initializer_list>
#include <stdexcept>
#include <string>

using namespace vram;
using namespace vram::detail;

TEST_CASE("transfer_progress: every piece is taken once, by any thread") {
    for (unsigned threads = 1; threads <= 4; ++threads) {
        thread_team<host_platform> all{{}, threads};
        for (std::size_t const pieces : {0U, 1U, 9U, 1000U}) {
            std::atomic<std::size_t> taken = 0, sum = 0;
            transfer_progress        progress{pieces};
            all.run([&](unsigned) noexcept {
                for (auto i = progress.take(); i != progress.none; i = progress.take()) {
                    ++taken;
                    sum += i;
                }
            });
            CHECK(taken == pieces);
            CHECK(sum == (pieces == 0 ? 0 : pieces * (pieces - 1) / 2));
            CHECK_FALSE(progress.failed());
            CHECK(progress.whole() == pieces);
            CHECK(progress.cause() == nullptr);
        }
    }
}

TEST_CASE("transfer_progress: if a piece fails, all pieces before it are complete") {
    for (unsigned threads = 1; threads <= 4; ++threads) {
        thread_team<host_platform> all{{}, threads};
        for (std::size_t at = 0; at < 10; ++at) {
            std::atomic<std::size_t> before = 0;
            transfer_progress        progress{10};
            all.run([&](unsigned) noexcept {
                for (auto i = progress.take(); i != progress.none; i = progress.take()) {
                    try {
                        if (i >= at) { throw std::runtime_error{"here"}; }
                        ++before;
                    } catch (...) { return progress.fail(i); }
                }
            });
            CHECK(progress.failed());
            CHECK(progress.whole() == at);
            CHECK(before == at);
            CHECK_THROWS_AS(std::rethrow_exception(progress.cause()), std::runtime_error);
            CHECK(progress.take() == progress.none);
        }
    }
}

TEST_CASE("transfer_progress: the first exception stays, and the lowest failed piece counts") {
    auto const fail = [](transfer_progress& all, std::size_t i) {
        try {
            throw std::runtime_error{std::to_string(i)};
        } catch (...) { all.fail(i); }
    };
    transfer_progress all{10};
    for (int i = 0; i < 6; ++i) { (void)all.take(); }
    CHECK(all.whole() == 6);
    fail(all, 5);
    CHECK(all.whole() == 5);
    fail(all, 3);
    fail(all, 4);
    CHECK(all.whole() == 3);
    CHECK_THROWS_WITH_AS(std::rethrow_exception(all.cause()), "5", std::runtime_error);
}
