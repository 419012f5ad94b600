// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Nodes with little memory in small pages, and failures injected into each call of virtual memory.

#include <vram/sim/sim_node.hpp> // sim_node, sim_faults

#include "mishaps.hpp" // mishaps

#include <doctest/doctest.h>

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception
#include <memory>    // shared_ptr

namespace doubles {

inline constexpr std::size_t small_page = 64 * 1024;

/// Options of a node with a device of `pages` pages.
[[nodiscard]] inline vram::sim_options small_pages(std::size_t pages = 64) {
    return {.capacity  = pages * small_page,
            .page      = small_page,
            .on_report = vram::sim_on_report::collect};
}

/// Returns true for calls of virtual memory; with `ends`, also for calls that free something.
[[nodiscard]] inline bool about_pages(vram::sim_call_kind kind, bool ends) {
    using kinds = vram::sim_call_kind;
    return kind == kinds::reserve || kind == kinds::create || kind == kinds::map ||
           kind == kinds::set_access || kind == kinds::unmap || (ends && kind == kinds::free);
}

/// Makes the `nth` call of virtual memory from here on fail, and the `times - 1` calls after it.
inline void fail_page_call(vram::sim_node& node, std::uint64_t nth, std::uint64_t times = 1,
                           bool ends = false) {
    auto const seen = std::make_shared<std::uint64_t>(0);
    node.faults().when([=](vram::sim_call_info const& c) {
        return about_pages(c.kind, ends) && ++*seen >= nth && *seen - nth < times;
    });
}
[[nodiscard]] inline std::uint64_t page_calls(vram::sim_node& node) {
    std::uint64_t sum = 0;
    for (int i = 0; i <= static_cast<int>(vram::sim_call_kind::other); ++i) {
        auto const kind = static_cast<vram::sim_call_kind>(i);
        if (about_pages(kind, true)) { sum += node.faults().calls(kind); }
    }
    return sum;
}

/// For every `step`-th n: makes the n-th call of `act(mr)` fail, and with `times` also the
/// following ones, so that cleaning up fails as well. Then calls `check(mr, failed)`. At the end no
/// memory and no address may be live, and no mistake reported. Returns how often `act` threw.
template <class Make, class Act, class Look>
unsigned walk_page_calls(Make make, Act act, Look look, std::uint64_t times = 1,
                         unsigned step = 1) {
    unsigned thrown = 0;
    for (std::uint64_t n = 1;; n += step) {
        REQUIRE(n < 1000);
        mishaps const  told;
        vram::sim_node node{small_pages()};
        bool           failed = false, over = false;
        {
            auto mr = make();
            node.faults().clear();
            fail_page_call(node, n, times);
            try {
                act(mr);
            } catch (std::exception const&) {
                failed = true;
                ++thrown;
            }
            over = page_calls(node) < n;
            node.faults().clear();
            CHECK((failed <= !over)); // without a fault nothing may fail
            look(mr, failed);
        }
        CHECK(told.count(vram::error_kind::leak) == 0);
        CHECK(node.figures().used == 0);
        node.finish();
        CHECK(node.reports().empty());
        if (over) { return thrown; }
    }
}

} // namespace doubles
