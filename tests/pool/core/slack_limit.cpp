// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slack_limit.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/memory_info.hpp>
#include <vram/pool/pool_options.hpp>

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error

using namespace vram;
using namespace vram::detail;

namespace {

/// The numbers of a `pool_core` that `slack_limit` reads.
struct numbers {
    struct request {
        std::size_t bytes = 0;
        void*       on    = nullptr;
    };
    struct chunks {
        std::size_t               addresses = 0;
        [[nodiscard]] std::size_t reserved() const { return addresses; }
    };
    struct heap {
        std::size_t                 live = 0;
        std::size_t                 most = 0;
        chunks                      of{};
        [[nodiscard]] std::size_t   live_bytes() const { return live; }
        [[nodiscard]] std::size_t   most_live() const { return most; }
        [[nodiscard]] chunks const& blocks() const { return of; }
    };
    struct budget {
        memory_usage usage;
    };
    [[nodiscard]] memory_info device_memory(void*) const {
        if (total == 0) { throw std::runtime_error{"no device"}; }
        return {.free = total, .total = total};
    }

    pool_options options_{};
    heap         heap_{};
    budget       budget_{};
    std::size_t  total = 0;
};

} // namespace

TEST_CASE("slack_limit: new memory above the peak of live bytes and the slack is in excess") {
    slack_limit limit;
    limit.set_device(64_GiB); // no pages are shared below 2 GiB
    numbers core{.options_ = {.slack = 0.5},
                 .heap_    = {.live = 4_GiB, .most = 8_GiB, .of = {16_GiB}},
                 .budget_  = {{.reserved = 11_GiB}}};
    CHECK(limit.excess(core, 1_GiB, {.bytes = 1_GiB}) == 0);     // 12 of 12 GiB
    CHECK(limit.excess(core, 3_GiB, {.bytes = 1_GiB}) == 2_GiB); // 14 of 12 GiB
    CHECK(limit.excess(core, 3_GiB, {.bytes = 6_GiB}) == 0);     // the peak becomes 10 GiB
    core.budget_.usage.reserved = 20_GiB;
    CHECK(limit.excess(core, 1_GiB, {.bytes = 1_GiB}) == 1_GiB); // never more than `fresh`
}

TEST_CASE("slack_limit: no pages are shared if few bytes are reserved, or very many addresses") {
    slack_limit limit;
    limit.set_device(64_GiB);
    numbers core{.options_ = {.slack = 0.01},
                 .heap_    = {.live = 0, .most = 1_GiB, .of = {4_GiB}},
                 .budget_  = {{.reserved = 1_GiB}}};
    CHECK(limit.excess(core, 1_GiB, {.bytes = 1}) == 0); // 2 GiB: 1/32 of the device
    core.options_.slack = 0;
    CHECK(limit.excess(core, 1_GiB, {.bytes = 1}) != 0);
    core.heap_.of.addresses = 8_GiB; // more than six times the peak
    CHECK(limit.excess(core, 1_GiB, {.bytes = 1}) == 0);
}

TEST_CASE("slack_limit: the device is queried only if a limit is set") {
    numbers core{.options_ = {.slack = 0.1}, .total = 80_GiB};
    CHECK(slack_limit::applies(core));
    CHECK(slack_limit::query_device(core, {}) == 80_GiB);
    core.total = 0;
    CHECK(slack_limit::query_device(core, {}) == 0); // the query fails
    core = {.total = 80_GiB};                        // without slack
    CHECK_FALSE(slack_limit::applies(core));
    CHECK(slack_limit::query_device(core, {}) == 0);
    core = {.options_ = {.remap = true, .slack = 0.1}, .total = 80_GiB};
    CHECK(slack_limit::query_device(core, {}) == 0);
}

TEST_CASE("slack_limit: the limit holds if the memory of the device is unknown") {
    slack_limit limit;
    numbers     core{.options_ = {.slack = 0.5},
                     .heap_    = {.live = 1_GiB, .most = 1_GiB, .of = {2_GiB}},
                     .budget_  = {{.reserved = 1_GiB}}};
    CHECK(limit.excess(core, 2_GiB, {.bytes = 1}) != 0);
    limit.set_device(1_GiB);
    CHECK(limit.excess(core, 2_GiB, {.bytes = 1}) == 0); // more addresses than the device has bytes
    limit.set_device(0);                                 // a query failed: the last result is used
    CHECK(limit.excess(core, 2_GiB, {.bytes = 1}) == 0);
}
