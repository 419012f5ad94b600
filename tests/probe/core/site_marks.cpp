// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/site_marks.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"

#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/core/scope_facts.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace vram;
using detail::site_figure;
using detail::site_marks;

namespace site_marks_test {

/// A layer with the figures that the test sets.
struct with_sites : statistics<doubles::archetype<>>, detail::owner_lists {
    std::vector<tracked_owner> sites;

    [[nodiscard]] std::vector<tracked_owner> by_tag() const override { return {}; }
    [[nodiscard]] std::vector<tracked_owner> by_site() const override { return sites; }
    [[nodiscard]] std::vector<tracked_block> blocks(tracked_order) const override { return {}; }
    [[nodiscard]] detail::owner_lists const& owners() const { return *this; }
};

bool holds(std::string const& text, char const* words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("site_marks: a stack without the layer has no lines") {
    doubles::archetype<> memory;
    site_marks           marks{memory};
    CHECK(marks.risen(site_figure::live).empty());
    CHECK(marks.crossed() == 0);
}

TEST_CASE("site_marks: the sites of which a figure has risen are listed with tag and line") {
    call_site const here = call_site::current();
    tagged const    scope{"cache"};
    with_sites      memory;
    memory.sites.push_back({.owner = current_tag(), .at = here, .live = 100, .allocations = 1});
    memory.sites.push_back({.live = 300, .allocations = 3});
    site_marks const marks{memory};
    CHECK(marks.risen(site_figure::live).empty());
    memory.sites[0].live += 2048;
    memory.sites[1].live -= 100;
    memory.sites[1].allocations += 2;
    std::string const live = marks.risen(site_figure::live);
    CHECK(holds(live, "\n  2.00 KiB more live of tag \"cache\""));
    CHECK(live.rfind('\n') == 0); // one line
    if (here.known()) { CHECK(holds(live, " allocated at site_marks.cpp:")); }
    CHECK(holds(marks.risen(site_figure::allocations), "\n  2 allocations"));
    CHECK(marks.crossed() == 0);
    memory.sites.push_back({.crossed = 2, .crossed_at = here}); // a new site
    CHECK(marks.crossed() == 2);
    CHECK(holds(marks.risen(site_figure::crossed), "2 frees"));
    for (int i = 0; i < 9; ++i) { memory.sites.push_back({.at = here, .live = 1}); }
    CHECK(holds(marks.risen(site_figure::live), "\n  ..."));
}

TEST_CASE("site_marks: the statements about a scope name the sites") {
    with_sites                memory;
    detail::scope_facts const facts{memory};
    memory.sites.push_back({.live = 1024, .allocations = 1});
    void* const p = memory.allocate_sync(1024);
    CHECK(holds(facts.no_leak(), "leaks 1.00 KiB:\n  1.00 KiB more live"));
    CHECK(holds(facts.delta_is(0), ":\n  1.00 KiB more live"));
    CHECK(holds(facts.delta_at_most(0), ":\n  1.00 KiB more live"));
    CHECK(holds(facts.peak_at_most(0), ":\n  1 allocations"));
    CHECK(holds(facts.allocations_are(0), ":\n  1 allocations"));
    memory.deallocate_sync(p, 1024);
    memory.sites[0].live = 0;
}

TEST_CASE("site_marks: a stack with tracking names tags and lines") {
    sim_node                                                 node;
    sim_stream                                               one;
    statistics<tracking<pool<stream_ordered<sim_resource>>>> memory;
    detail::scope_facts const                                facts{memory};
    void*                                                    left = nullptr;
    {
        tagged const scope{"cache"};
        left = memory.allocate(one, 3_KiB);
    }
    std::string const leak = facts.no_leak();
    CHECK(holds(leak, "leaks 3.00 KiB:\n  3.00 KiB more live of tag \"cache\""));
    if (call_site::current().known()) { CHECK(holds(leak, " allocated at site_marks.cpp:")); }
    memory.deallocate(one, left, 3_KiB);
    CHECK(facts.no_leak().empty());
}

TEST_CASE("site_marks: a stack that gets a new value is compared with its lists of before") {
    using stack = statistics<tracking<pool<stream_ordered<sim_resource>>>>;
    sim_node         node;
    sim_stream       one;
    stack            memory;
    site_marks const marks{memory};
    memory           = stack{}; // the lists of before are destroyed
    void* const left = memory.allocate(one, 3_KiB);
    CHECK(holds(marks.risen(site_figure::live), "\n  3.00 KiB more live"));
    memory.deallocate(one, left, 3_KiB);
    CHECK(marks.risen(site_figure::live) == "");
}

} // namespace site_marks_test
