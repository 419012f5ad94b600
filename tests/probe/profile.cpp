// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/profile.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace vram;

template class vram::profile<host_platform>;

TEST_CASE("profile: its platform is that of the resource") {
    doubles::archetype<> memory;
    profile              times{memory};
    static_assert(std::is_same_v<decltype(times), profile<host_platform>>);
    CHECK(times.rows().empty());
}

TEST_CASE("profile: a row has the figures of its scope, and blank cells for unknown ones") {
    profile<host_platform> times;
    auto&                  step = times.tree().enter(nullptr, "step");
    auto&                  part = times.tree().enter(&step, "part");
    profile_row            run{.runs = 1, .has_memory = true, .live = -2048, .peak = 4096};
    run.host.add(1500);
    run.device.add(2500);
    run.peak_is_exact = false;
    times.tree().add(step, 3, run);
    times.tree().add(part, 3, {.runs = 7});
    std::string const text = times.text();
    CHECK(text.starts_with("scope"));
    CHECK(text.find("2.50 us") != std::string::npos);
    CHECK(text.find("1.50 us") != std::string::npos);
    CHECK(text.find("-2.00 KiB") != std::string::npos);
    CHECK(text.find("<= 4.00 KiB") != std::string::npos);
    CHECK(text.find("\n  part") != std::string::npos);
    CHECK(text.find("thread") == std::string::npos);
    CHECK(times.rows(true)[0].thread == 3);
}
