// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/over_aligned.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <vector> // vector

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;

TEST_CASE("over_aligned: an alignment that CUDA guarantees needs no larger block") {
    alignas(256) std::byte block[256];
    CHECK(over_aligned::size(100, 1) == 100);
    CHECK(over_aligned::size(100, 256) == 100);
    CHECK(over_aligned::hand_out(block, 256) == block);
    CHECK(over_aligned::count() == 0);
    CHECK(over_aligned::take_back(block, 256, 256) == block);
}

TEST_CASE("over_aligned: a larger alignment is an address inside a larger block, and the block is "
          "found again") {
    std::vector<std::byte> room(20000);
    void* const            block = align_address(room.data(), 256);
    std::size_t const      size  = over_aligned::size(100, 4096);
    CHECK(size == 100 + 4096 - 256);
    void* const p = over_aligned::hand_out(block, 4096);
    CHECK(is_aligned(p, 4096));
    CHECK(static_cast<std::byte*>(p) + 100 <= static_cast<std::byte*>(block) + size);
    CHECK(over_aligned::count() == 1);
    CHECK(over_aligned::take_back(p, 100, 4096) == block);
    CHECK(over_aligned::count() == 0);
}

TEST_CASE("over_aligned: a size that overflows is refused") {
    CHECK(over_aligned::size(unsatisfiable, 4096) == unsatisfiable);
    CHECK(over_aligned::size(unsatisfiable - 100, 512) == unsatisfiable);
}

TEST_CASE("over_aligned: a free with another alignment is reported, and the block is found") {
    mishaps const          told;
    std::vector<std::byte> room(20000);
    void* const            p = over_aligned::hand_out(room.data(), 4096);
    CHECK(over_aligned::take_back(p, 100, 16) == room.data());
    CHECK(told.count(error_kind::wrong_alignment) == 1);
    CHECK(over_aligned::take_back(room.data(), 100, 4096) ==
          room.data()); // the program requested a smaller alignment
    CHECK(told.count(error_kind::wrong_alignment) == 2);
    CHECK(over_aligned::count() == 0);
}

TEST_CASE("over_aligned: an address next to live blocks is not one of them") {
    mishaps const          told;
    std::vector<std::byte> room(20000);
    void* const            p    = over_aligned::hand_out(room.data(), 4096);
    int                    mine = 0;
    CHECK(over_aligned::take_back(&mine, 4, 4) == &mine);
    CHECK(told.count() == 0);
    CHECK(over_aligned::count() == 1);
    CHECK(over_aligned::take_back(p, 100, 4096) == room.data());
}

TEST_CASE("over_aligned: if the host has no memory for the bookkeeping, the request is refused") {
    std::vector<std::byte> room(20000);
    bool                   hit = true;
    for (std::uint64_t n = 1; hit; ++n) {
        doubles::bombing armed{n};
        void* const      p = over_aligned::hand_out(room.data(), 4096);
        hit                = armed.defuse();
        CHECK((p == nullptr) == hit);
        CHECK(over_aligned::count() == (hit ? 0 : 1));
        if (p != nullptr) { CHECK(over_aligned::take_back(p, 100, 4096) == room.data()); }
    }
}

TEST_CASE("over_aligned: a block at the address of an older one, freed by a device reset, is not "
          "taken for it") {
    mishaps const          told;
    std::vector<std::byte> room(20000);
    void* const            p = over_aligned::hand_out(room.data(), 4096);
    CHECK(over_aligned::count() == 1);
    CHECK(over_aligned::hand_out(p, 256) == p); // CUDA allocates here again
    CHECK(over_aligned::count() == 0);
    CHECK(over_aligned::take_back(p, 100, 256) == p);
    CHECK(told.count() == 0);
}
