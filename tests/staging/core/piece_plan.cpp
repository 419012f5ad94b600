// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/piece_plan.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace vram;
using namespace vram::detail;

namespace {
/// Every byte is in one piece, in order, and no piece is empty or larger than it may be.
void check_piece_plan(std::size_t bytes, std::size_t largest, std::size_t first) {
    CAPTURE(bytes);
    CAPTURE(largest);
    CAPTURE(first);
    piece_plan const  plan{bytes, largest, first};
    std::size_t const most  = align(std::max(largest, piece_plan::unit), piece_plan::unit);
    std::size_t       at    = 0;
    std::size_t       wrong = 0;
    for (std::size_t i = 0; i < plan.pieces(); ++i) {
        piece_plan::piece const p = plan[i];
        wrong += p.offset != at || p.bytes == 0 || p.bytes > most || p.offset % 4096 != 0 ? 1 : 0;
        at += p.bytes;
    }
    CHECK(wrong == 0);
    CHECK(at == bytes);
    CHECK(plan.bytes() == bytes);
}
} // namespace

TEST_CASE("piece_plan: the pieces cover everything, at every size near a border") {
    for (std::size_t const largest : {1U, 4096U, 5000U, 65536U, 1U << 20U}) {
        for (std::size_t const first : {0U, 1U, 4096U, 40960U, 1U << 22U}) {
            for (std::size_t const chunks : {0U, 1U, 2U, 3U, 5U, 17U, 100U}) {
                for (std::size_t const more : {0U, 1U, 2U, 4095U, 4096U, 4097U}) {
                    check_piece_plan(chunks * largest + more, largest, first);
                    check_piece_plan(chunks * largest - (chunks != 0 ? 1 : 0), largest, first);
                }
            }
        }
    }
}

TEST_CASE("piece_plan: the pieces cover everything, at random sizes") {
    std::mt19937_64 random{7};
    for (int i = 0; i < 2000; ++i) {
        auto const any = [&](unsigned bits) {
            return random() >> (64 - 1 - random() % bits); // every magnitude as often
        };
        check_piece_plan(any(30), 16384 + any(22), any(20));
    }
}

TEST_CASE("piece_plan: pieces grow at the beginning, and shrink at the end") {
    piece_plan const plan{1_GiB, 4_MiB, 256_KiB};
    CHECK(plan[0].bytes == 256_KiB);
    CHECK(plan[plan.pieces() - 1].bytes == 256_KiB);
    CHECK(plan[plan.pieces() / 2].bytes == 4_MiB);
    for (std::size_t i = 1; i < plan.pieces() / 2 - 1; ++i) {
        CHECK(plan[i].bytes >= plan[i - 1].bytes);
        CHECK(plan[i].bytes <= plan[i - 1].bytes + plan[i - 1].bytes / 8 + 4096);
    }
    CHECK(plan.pieces() < 1_GiB / 4_MiB + 50); // and few are small
}

TEST_CASE("piece_plan: small sizes have few pieces, and zero bytes none") {
    CHECK(piece_plan{}.pieces() == 0);
    CHECK(piece_plan{0, 4_MiB, 256_KiB}.pieces() == 0);
    CHECK(piece_plan{1, 4_MiB, 256_KiB}.pieces() == 1);
    CHECK(piece_plan{256_KiB, 4_MiB, 256_KiB}.pieces() == 1);
    CHECK(piece_plan{256_KiB + 1, 4_MiB, 256_KiB}.pieces() == 2);
    CHECK(piece_plan{10_MiB, 1_MiB, 1_MiB}.pieces() == 10);
}

TEST_CASE("piece_plan: smaller transfers have smaller pieces") {
    static_assert(piece_plan::fitting(1_GiB, 4_MiB) == 4_MiB);
    CHECK(piece_plan::fitting(512_MiB, 4_MiB) == 4_MiB);
    CHECK(piece_plan::fitting(64_MiB, 4_MiB) == 1_MiB);
    CHECK(piece_plan::fitting(16_MiB, 4_MiB) == 512_KiB);
    std::size_t before = 4_MiB;
    for (std::size_t bytes = 1_GiB; bytes != 0; bytes /= 2) {
        std::size_t const now = piece_plan::fitting(bytes, 4_MiB);
        CHECK(now <= before);
        CHECK(now >= 4096);
        before = now;
    }
    CHECK(piece_plan::fitting(1, 4096) == 4096);
    CHECK(piece_plan::fitting(10_GiB, 64_KiB) == 64_KiB);
}
