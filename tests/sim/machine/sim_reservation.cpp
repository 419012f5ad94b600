// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_reservation.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_reservation: the range is aligned, and its mappings are found") {
    sim_reservation r{1 << 20, 1 << 22, 1, true, false};
    CHECK(r.begin % (1 << 22) == 0);
    CHECK(r.end() == r.begin + (1 << 20));
    CHECK(r.device == 1);
    CHECK(r.space.backed());
    CHECK(r.space.view(r.begin) != r.begin);
    CHECK(r.mapping(r.begin) == nullptr);
    sim_block* const block = r.space.insert_at(r.begin + 4096, 4096);
    CHECK(r.mapping(r.begin + 4095) == nullptr);
    CHECK(r.mapping(r.begin + 4096) == block);
    CHECK(r.mapping(r.begin + 8191) == block);
    CHECK(r.mapping(r.begin + 8192) == nullptr);
}

TEST_CASE("sim_reservation: the host may use plain addresses, and unbacked ones have no contents") {
    sim_reservation const plain{1 << 20, 4096, 0, true, true};
    CHECK(plain.space.view(plain.begin) == plain.begin);
    sim_reservation const bare{std::size_t{1} << 40, 4096, 0, false, true};
    CHECK_FALSE(bare.space.backed());
}
