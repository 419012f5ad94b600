// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/copy_problem.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace vram;
using namespace vram::detail;

static_assert(explained_errors<sim_platform> && !explained_errors<host_platform>);

namespace copy_problems {
/// Returns the exception that `copy_problem` throws for `thrown` in batch 7.
template <class Platform, class Thrown>
std::string arrives(Thrown const& thrown) {
    std::exception_ptr problem;
    try {
        throw thrown;
    } catch (...) { problem = copy_problem<Platform>(7); }
    try {
        std::rethrow_exception(problem);
    } catch (Thrown const& e) { return e.what(); }
}
} // namespace copy_problems

TEST_CASE("copy_problem: an error of the platform keeps its type and status, and names the batch") {
    sim_error const error{sim_status::copy_failed};
    CHECK(copy_problems::arrives<sim_platform>(error) == "copy of batch 7: vram::sim: copy failed");
    CHECK(error.in("x").status() == sim_status::copy_failed);
    CHECK(error.in("x").where().line() == error.where().line());
}

TEST_CASE("copy_problem: any other exception is unchanged") {
    CHECK(copy_problems::arrives<sim_platform>(std::runtime_error{"mine"}) == "mine");
    CHECK(copy_problems::arrives<host_platform>(std::runtime_error{"mine"}) == "mine");
    CHECK(copy_problems::arrives<host_platform>(sim_error{sim_status::refused}) ==
          sim_error{sim_status::refused}.what());
}
