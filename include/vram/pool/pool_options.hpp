// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_options` are the numbers that a pool is made with.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/base/contract.hpp>     // expects
#include <vram/pool/event_policy.hpp> // event_policy

#include <cstddef> // size_t
#include <limits>  // numeric_limits

namespace vram {

/// Every option has a default that suits one process with a device of its own.
struct pool_options {
    std::size_t initial_size = 0; ///< bytes taken from the upstream by the constructor
    /// Bytes held at most; the rest is left to others. What goes back counts until it is there.
    std::size_t  max_size = unsatisfiable;
    event_policy events   = event_policy::lazy;
    /// Streams may be captured into graphs: every call then asks whether its stream is being
    /// captured, and what is freed during a capture is kept for that stream's captures until
    /// `forget_captures`.
    bool graphs = false;
    /// Over virtual memory (elsewhere it is a broken contract): free pages are moved under a
    /// request before the device is asked for more. The least is held. Pages that come back to
    /// where they were last cost next to nothing; each other costs microseconds, and the host waits
    /// for what was freed.
    bool remap = false;
    /// Over virtual memory (elsewhere it is a broken contract), without `remap`, for programs that
    /// repeat themselves: how much more than was ever out at once may be held, as a part of that,
    /// before new addresses are mapped to memory of free pages in place of new memory (0.07: 7 %).
    /// That has two addresses then, used in turns: nothing is unmapped before a `trim`, nobody
    /// waits, and what is done again finds all mapped. Below 1/32 of the device and 2.25 GiB it is
    /// not worth it, unless this is 0. Infinity: no memory has two addresses. Never negative.
    double slack = std::numeric_limits<double>::infinity();
};

namespace detail {
/// `remap` and `slack` mean nothing where pages cannot be moved: they are a mistake there.
constexpr void expect_no_page_options(pool_options const& o, char const* what) {
    expects(!o.remap && !(o.slack < std::numeric_limits<double>::infinity()), what);
}
} // namespace detail

} // namespace vram
