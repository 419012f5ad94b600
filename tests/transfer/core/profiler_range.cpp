// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/profiler_range.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace told_ranges {
struct told : host_platform {
    static inline std::vector<std::string> log;

    static std::uint64_t begin_range(char const* name) {
        log.push_back(name);
        return log.size();
    }
    static void end_range(std::uint64_t range) { log.push_back("end " + std::to_string(range)); }
    static void name_thread(char const* name) { log.push_back(name); }
};
} // namespace told_ranges
using told_ranges::told;

TEST_CASE(
    "stage: a profiler range covers a scope, or a start and an end, if the platform has ranges") {
    static_assert(has_ranges<told> && !has_ranges<host_platform>);
    profiler_range<told>::name_thread("me");
    {
        profiler_range<told> const outer{"outer"};
        auto const                 open = profiler_range<told>::begin("open");
        profiler_range<told>::end(open);
    }
    CHECK(told::log == std::vector<std::string>{"me", "outer", "open", "end 3", "end 2"});
    profiler_range<host_platform> const nobody{"nobody"};
    profiler_range<host_platform>::name_thread("nobody");
    CHECK(profiler_range<host_platform>::begin("nobody") == 0);
    profiler_range<host_platform>::end(0);
}
