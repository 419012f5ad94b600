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
    /// The largest number of reserved bytes, so that the rest is left to other users of the device.
    /// A chunk that is being returned counts until the upstream has freed it.
    std::size_t max_size = unsatisfiable;
    /// Selects when events are recorded behind freed memory: when another stream needs the memory
    /// (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// Allows streams to be captured into graphs. Every call then queries if its stream is being
    /// captured. Only captures of the same stream may reuse memory freed during a capture,
    /// until `forget_captures`, because the graph uses the memory each time it runs.
    bool graphs = false;
    /// Only for virtual memory; a broken contract otherwise. If a request does not fit, physical
    /// pages of free memory are mapped to its addresses before the device is asked for more. This
    /// reserves the least memory. A page that returns to its previous address costs next to
    /// nothing. Any other page costs microseconds, and the host waits for the streams that may
    /// still access it.
    bool remap = false;
    /// Only for virtual memory: over other memory, a finite value is a broken contract, and so is a
    /// negative value. Without effect if `remap` is set. Suits programs that repeat themselves. It
    /// is the share by which the reserved bytes may exceed the peak live bytes (0.07: 7 %). Beyond
    /// that, the pool maps the physical memory of free pages to new addresses, if possible, instead
    /// of new memory. That memory then has two addresses; at most one of them is in a live block at
    /// any time. Nothing is unmapped before a `trim`, no wait is needed, and a repeated step finds
    /// all its pages mapped. No page gets a second address while the reserved bytes are below 1/32
    /// of the device and also below 2.25 GiB, unless the slack is 0. Infinity means that no memory
    /// has two addresses.
    double slack = std::numeric_limits<double>::infinity();
};

namespace detail {
/// Checks that `remap` and `slack` are not set for a pool over memory that has no pages to move. If
/// one is set, the contract is broken, with the message `what`: the program ends (see `expects`).
constexpr void expect_no_page_options(pool_options const& o, char const* what) {
    expects(!o.remap && !(o.slack < std::numeric_limits<double>::infinity()), what);
}
} // namespace detail

} // namespace vram
