// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_error.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace vram;

TEST_CASE("sim_error: carries its status, the place, and is a system_error") {
    sim_error const e{sim_status::device_lost};
    CHECK(e.status() == sim_status::device_lost);
    CHECK(e.code().category() == sim_category());
    CHECK(std::string{e.where().file_name()}.find("sim_error") != std::string::npos);
    CHECK(std::string{e.what()}.find("device lost") != std::string::npos);
}

TEST_CASE("sim_error: every status has a name of its own") {
    std::set<std::string> names;
    int const             last = static_cast<int>(sim_status::unbacked);
    for (int i = 0; i <= last; ++i) { names.insert(name(static_cast<sim_status>(i))); }
    CHECK(names.size() == static_cast<std::size_t>(last) + 1);
    CHECK(std::string{name(static_cast<sim_status>(last + 1))} == "unknown");
}
