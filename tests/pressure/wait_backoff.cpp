// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/wait_backoff.hpp> // first: the header stands alone

#include <vram/layer/retrying.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

using waits = std::vector<std::chrono::nanoseconds>;

/// A policy that records how long it would wait.
auto noting(waits& seen, std::chrono::nanoseconds first, std::chrono::nanoseconds longest) {
    return wait_backoff{first, longest, [&](std::chrono::nanoseconds d) { seen.push_back(d); }};
}

} // namespace

TEST_CASE("wait_backoff: eight waits, each twice as long as the previous one, up to the longest") {
    waits    seen;
    retrying mr{null_resource<>{}, noting(seen, 1ms, 20ms)};
    CHECK_THROWS_AS((void)mr.allocate_sync(10), out_of_memory);
    CHECK(seen == waits{1ms, 2ms, 4ms, 8ms, 16ms, 20ms, 20ms, 20ms});
}

TEST_CASE("wait_backoff: the next request begins with short waits again") {
    waits    seen;
    retrying mr{null_resource<>{}, noting(seen, 1ms, 1ms)};
    CHECK(mr.try_allocate_sync(10) == nullptr);
    CHECK(mr.try_allocate({}, 10) == nullptr);
    CHECK(seen == waits(16, 1ms));
}

TEST_CASE("wait_backoff: memory that another process frees during a wait meets the request") {
    sim_node node{{.capacity = 4_MiB, .on_report = sim_on_report::collect}};
    node.take(0, 4_MiB);
    auto const virtually = [&](std::chrono::nanoseconds d) {
        node.work(d);
        if (node.now() >= 6ms) { node.give_back(0, 4_MiB); }
    };
    retrying    mr{sim_resource{}, wait_backoff{1ms, 100ms, virtually}};
    void* const p = mr.allocate_sync(1_MiB);
    CHECK(node.now() == 7ms); // 1, 2 and 4
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("wait_backoff: without a custom sleep it blocks in real time") {
    auto const      before = std::chrono::steady_clock::now();
    null_resource<> none;
    CHECK(wait_backoff{2ms}(none, failed_attempt{.tries = 2}));
    CHECK(std::chrono::steady_clock::now() - before >= 4ms);
}
