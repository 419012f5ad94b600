// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_error.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <new>
#include <set>
#include <source_location>
#include <string>

using namespace vram;

TEST_CASE("sim_error: it has a status and a source location, and is a std::system_error") {
    sim_error const e{sim_status::device_lost};
    CHECK(e.status() == sim_status::device_lost);
    CHECK(e.code().category() == sim_category());
    CHECK(std::string{e.where().file_name()}.find("sim_error") != std::string::npos);
    CHECK(std::string{e.what()}.find("device lost") != std::string::npos);
}

TEST_CASE("sim_error: an error in a function that must not throw goes to the error sink, with its "
          "status") {
    struct told {
        static void   note(error const& e) noexcept { last() = e; }
        static error& last() {
            static error one{};
            return one;
        }
    };
    int              memory = 0;
    auto const       here   = std::source_location::current();
    error_sink const before = set_error_sink(told::note);
    auto const       tell   = [&](auto const& what) {
        try {
            throw what;
        } catch (...) { detail::report_sim_error(&memory, 7, here); }
        return told::last();
    };
    error const refused = tell(sim_error{sim_status::device_lost});
    error const other   = tell(std::bad_alloc{});
    set_error_sink(before);
    CHECK(refused.kind == error_kind::platform_error);
    CHECK(refused.code == static_cast<int>(sim_status::device_lost));
    CHECK(refused.pointer == &memory);
    CHECK(refused.bytes == 7);
    CHECK(refused.where.line() == here.line());
    CHECK(other.kind == error_kind::platform_error);
    CHECK(other.code == 0);
    CHECK(other.bytes == 7);
}

TEST_CASE("sim_error: every status has a different name") {
    std::set<std::string> names;
    int const             last = static_cast<int>(sim_status::unbacked);
    for (int i = 0; i <= last; ++i) { names.insert(name(static_cast<sim_status>(i))); }
    CHECK(names.size() == static_cast<std::size_t>(last) + 1);
    CHECK(std::string{name(static_cast<sim_status>(last + 1))} == "unknown");
}
