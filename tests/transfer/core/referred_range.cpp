// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/referred_range.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

using namespace vram;

namespace {

/// A range of batches that can be neither copied nor moved.
struct fixed_batches {
    fixed_batches()                                = default;
    fixed_batches(fixed_batches const&)            = delete;
    fixed_batches& operator=(fixed_batches const&) = delete;

    auto begin() const { return batches_.begin(); }
    auto end() const { return batches_.end(); }

private:
    std::vector<std::vector<float>> batches_ =
        std::vector<std::vector<float>>(3, std::vector<float>(10, 1.0F));
};

} // namespace

TEST_CASE("referred_range: a loader of an lvalue range reads the range itself, of any constness") {
    fixed_batches    batches;
    sim_stream const stream;
    std::size_t      bytes = 0;
    for (auto const& each : loader{batches, stream, {.batch_bytes = 64}}) { bytes += each.size(); }
    CHECK(bytes == 30 * sizeof(float));

    fixed_batches const& constant = batches;
    bytes                         = 0;
    for (auto const& each : loader{constant, stream, {.batch_bytes = 64}}) { bytes += each.size(); }
    CHECK(bytes == 30 * sizeof(float));
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
