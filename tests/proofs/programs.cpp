// SPDX-License-Identifier: Apache-2.0
// Random programs with several host threads on the simulated device, for a second. The program
// random_programs runs more.
#include "../random/memory_subjects.hpp" // memory_subjects, run_memory
#include "../random/order_run.hpp"       // run_orders, order_counts

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace {

/// Runs programs with the seeds from 1 on for some time, at least one. Returns the first
/// disagreement.
template <class Run>
std::string for_some_programs(std::chrono::milliseconds time, Run run) {
    auto const  begin = std::chrono::steady_clock::now();
    std::string what;
    for (std::uint64_t seed = 1; what.empty(); ++seed) {
        if (seed != 1 && std::chrono::steady_clock::now() - begin > time) { break; }
        what = run(seed);
        if (!what.empty()) { what = "seed " + std::to_string(seed) + ": " + what; }
    }
    return what;
}

} // namespace

TEST_CASE("simulated device: its verdict on each operation of a random program is that of a "
          "model") {
    trial::order_counts counts;
    CHECK(for_some_programs(std::chrono::milliseconds{600}, [&](std::uint64_t seed) {
              return trial::run_orders(seed, counts);
          }) == "");
    CHECK(counts.mistakes > 0);
    CHECK(counts.actions > counts.mistakes);
}

TEST_CASE("simulated device: in random programs on each resource it reports early frees, races, "
          "uses after free and out of bounds, and nothing else") {
    for (trial::memory_subject const& subject : trial::memory_subjects) {
        CAPTURE(subject.name);
        CHECK(for_some_programs(std::chrono::milliseconds{50}, [&](std::uint64_t seed) {
                  return trial::run_memory(subject, seed);
              }) == "");
    }
}
