// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_space.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <deque>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_space: blocks are aligned and apart, and found by any address in them") {
    sim_space        space{1 << 20, false};
    sim_block* const a = space.insert(100, 256);
    sim_block* const b = space.insert(100, 4096);
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    CHECK(b->begin % 4096 == 0);
    CHECK(b->begin >= a->end() + 256);
    CHECK(space.before(a->begin + 99) == a);
    CHECK(space.before(b->begin) == b);
    CHECK(space.before(a->begin - 1) == nullptr);
    CHECK(space.holds(a->begin));
    CHECK_FALSE(space.holds(0));
}

TEST_CASE("sim_space: freed addresses are reused only if no others are left") {
    sim_space  space{64 * 1024, false};
    sim_block* first = space.insert(1024, 256);
    auto const at    = first->begin;
    space.retire(*first);
    int rounds = 1;
    for (sim_block* b = space.insert(1024, 256); b->begin != at; b = space.insert(1024, 256)) {
        REQUIRE(++rounds < 1000);
        space.retire(*b);
    }
    CHECK(rounds > 40);
}

TEST_CASE("sim_space: addresses that earlier work may still use are not reused") {
    sim_space  space{16 * 1024, false};
    sim_block* busy = space.insert(8 * 1024, 256);
    busy->freed = busy->busy = true;
    CHECK(space.insert(12 * 1024, 256) == nullptr);
    space.retire(*busy);
    CHECK(space.insert(12 * 1024, 256) != nullptr);
}

TEST_CASE("sim_space: a full space refuses, and a gap of the right size is filled") {
    sim_space  space{64 * 1024, false};
    sim_block* hole = nullptr;
    int        n    = 0;
    for (sim_block* b = space.insert(4000, 256); b != nullptr; b = space.insert(4000, 256)) {
        if (++n == 5) { hole = b; }
    }
    REQUIRE(hole != nullptr);
    auto const at = hole->begin;
    space.retire(*hole);
    CHECK(space.insert(8000, 256) == nullptr);
    sim_block* const again = space.insert(4000, 256);
    REQUIRE(again != nullptr);
    CHECK(again->begin == at);
}

TEST_CASE(
    "sim_space: with zones, small long-lived blocks do not fragment the addresses of large ones") {
    constexpr std::size_t capacity = std::size_t{1} << 30;
    auto const            rounds   = [&](std::size_t zones) {
        sim_space   space{32 * 4 * capacity, false, zones};
        std::size_t n = 0;
        // A small block stays of each round. A large one is freed before the next, which is larger.
        for (; n < 2000; ++n) {
            sim_block* const large = space.insert(capacity / 2 + n * 16384, 256);
            if (large == nullptr || space.insert(4096, 256) == nullptr) { break; }
            space.retire(*large);
        }
        return n;
    };
    CHECK(rounds(1) < 2000);
    CHECK(rounds(32) == 2000);
}

TEST_CASE("sim_space: a block is placed in another zone if its own is full") {
    sim_space space{32 * 64 * 1024, false, 32};
    int       n = 0;
    while (space.insert(4000, 256) != nullptr) { ++n; }
    CHECK(n > 31 * 64 * 1024 / 4512); // more than 15 fit into a zone
    CHECK(space.insert(std::size_t{1} << 40, 256) == nullptr);
}

TEST_CASE("sim_space: contents have other addresses, or there are none") {
    sim_space bare{1 << 16, false};
    CHECK_FALSE(bare.backed());
    bare.back();
    sim_block* const b = bare.insert(64, 64);
    CHECK(bare.backed());
    CHECK(bare.view(b->begin) != b->begin);
    std::memset(reinterpret_cast<void*>(bare.view(b->begin)), 1, 64);
    sim_space        plain{1 << 16, true};
    sim_block* const c = plain.insert(64, 64);
    CHECK(plain.view(c->begin) == c->begin);
    std::memset(reinterpret_cast<void*>(c->begin), 1, 64);
}

TEST_CASE("sim_space: the number of remembered freed blocks is bounded") {
    sim_space space{std::size_t{1} << 30, false};
    for (int i = 0; i < 10000; ++i) { space.retire(*space.insert(64, 64)); }
    CHECK(space.blocks().size() <= 4096);
}

TEST_CASE("sim_space: freed blocks at reused addresses are remembered, too") {
    sim_space                  space{64 * 1024, false};
    std::deque<std::uintptr_t> last;
    for (int i = 0; i < 10000; ++i) {
        sim_block* const b = space.insert(1024, 256);
        last.push_back(b->begin);
        space.retire(*b);
        if (last.size() > 20) { last.pop_front(); }
    }
    for (std::uintptr_t const at : last) {
        sim_block const* const b = space.before(at);
        REQUIRE(b != nullptr);
        CHECK(b->begin == at);
        CHECK(b->freed);
    }
}
