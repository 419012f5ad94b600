// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/referred_range.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

using namespace vram;

TEST_CASE("referred_range: a loader of an lvalue range reads the range itself, of any constness") {
    std::vector<std::vector<float>> batches(3, std::vector<float>(10, 1.0F));
    sim_stream const                stream;
    loader                          batch_loop{batches, stream, {.batch_bytes = 64}};
    batches[0].resize(5); // before the first batch is read
    std::size_t bytes = 0;
    for (auto const& each : batch_loop) { bytes += each.size(); }
    CHECK(bytes == (5 + 10 + 10) * sizeof(float));

    std::vector<std::vector<float>> const& constant = batches;
    bytes                                           = 0;
    for (auto const& each : loader{constant, stream, {.batch_bytes = 64}}) { bytes += each.size(); }
    CHECK(bytes == (5 + 10 + 10) * sizeof(float));
}

TEST_CASE("referred_range: a loader copies a view, and moves an rvalue range") {
    std::vector<std::vector<float>> const batches(2, std::vector<float>(4, 1.0F));
    sim_stream const                      stream;
    std::span const                       view{batches};
    std::size_t                           count = 0;
    for (auto const& each : loader{view, stream, {.batch_bytes = 64}}) {
        count += each.size() != 0;
    }
    auto copy = batches;
    for (auto const& each : loader{std::move(copy), stream, {.batch_bytes = 64}}) {
        count += each.size() != 0;
    }
    CHECK(count == 4);
}
