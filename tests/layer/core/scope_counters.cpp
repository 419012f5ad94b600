// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/core/scope_counters.hpp> // first: the header stands alone

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/lock.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/histograms.hpp>
#include <vram/layer/statistics.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace vram;
using namespace vram::detail;

namespace scope_counters_test {

/// The scopes of the tests of `statistics`, with threads that count by turns.
template <class Counts, class Run>
void scopes(Run const& other_thread) {
    Counts counts;
    int    block = 0;
    counts.allocated(&block, 1000);
    std::uint64_t const outer = counts.push();
    other_thread([&] { counts.allocated(&block, 100); });
    std::uint64_t const inner = counts.push();
    counts.allocated(&block, 30);
    other_thread([&] { counts.freed(&block, 1000), counts.refused(); });
    CHECK(counts.now().bytes == counter{-970, 30, 30});
    CHECK(counts.now(outer).bytes == counter{-870, 130, 130});
    CHECK(counts.overall().bytes == counter{130, 1130, 1130});
    CHECK(counts.pop(outer).refusals == 1);
    CHECK(counts.pop(inner).blocks == counter{0, 1, 1});
    CHECK(counts.now() == counts.overall());
}
constexpr auto in_a_thread = [](auto const& f) { worker{0, f}.join(); };
constexpr auto at_once     = [](auto const& f) { f(); };

TEST_CASE("scope_counters: scopes have the same counts with one thread and with several") {
    scopes<scope_counters<counters, biased_lock, no_histograms>>(at_once);
    scopes<scope_counters<counters, biased_lock, no_histograms>>(in_a_thread);
    scopes<scope_counters<counters, biased_lock, histograms>>(in_a_thread);
    scopes<scope_counters<counters, no_lock, no_histograms>>(at_once);
}

} // namespace scope_counters_test
