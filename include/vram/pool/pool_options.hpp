// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_options` are the options of a `pool`, a `slab` or a `monotonic`.

#include <vram/base/align.hpp>    // unsatisfiable
#include <vram/base/contract.hpp> // expects
#include <vram/pool/event_policy.hpp>

#include <cstddef>
#include <limits> // numeric_limits

namespace vram {

/// The options of a `pool`, a `slab` or a `monotonic`. The defaults suit one process that has a
/// device to itself.
struct pool_options {
    /// Bytes that the constructor allocates from the upstream, rounded up to whole pages if that is
    /// virtual memory.
    std::size_t initial_size = 0;
    /// The largest number of reserved bytes. A chunk that is being returned counts until the
    /// upstream has freed it.
    std::size_t max_size = unsatisfiable;
    /// Selects when events are recorded behind freed memory: when another stream needs the memory
    /// (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// Permits captures of streams into graphs. Only captures of the same stream reuse memory freed
    /// during a capture, until `forget_captures`.
    bool graphs = false;
    /// For virtual memory only: gives a request the physical pages of free memory before new memory
    /// is reserved. The host may wait.
    bool remap = false;
    /// For virtual memory only: excess of reserved over peak live bytes (0.07: 7 %) above which
    /// free pages may be mapped to second addresses.
    double slack = std::numeric_limits<double>::infinity();
};

namespace detail {
/// Checks that `remap` and `slack` are not set. Otherwise reports a broken contract with the
/// message `what`.
constexpr void expect_no_page_options(pool_options const& o, char const* what) {
    expects(!o.remap && !(o.slack < std::numeric_limits<double>::infinity()), what);
}
} // namespace detail

} // namespace vram
