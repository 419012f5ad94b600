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

/// The options of a `pool`, a `slab` or a `monotonic`. By default the size is not limited, which
/// suits one process alone on a device.
struct pool_options {
    /// Number of bytes that the constructor reserves, rounded up to whole pages of virtual memory,
    /// or whole blocks of a `slab`, if `max_size` permits.
    std::size_t initial_size = 0;
    /// The largest number of bytes that may be reserved (obtained from the upstream, live or free)
    /// at one time. A chunk that is being returned counts until the upstream has freed it.
    std::size_t max_size = unsatisfiable;
    /// Selects when the stream that freed memory records an event for other streams: when another
    /// stream needs the memory (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// True permits allocations and frees on streams that are being captured into graphs. Memory
    /// freed during a capture serves only captures of the same stream until `forget_captures()`.
    bool graphs = false;
    /// For virtual memory only: maps pages of free blocks to a new block before new memory is
    /// reserved. The host may wait until they are unused.
    bool remap = false;
    /// For virtual memory only: the share (0.07 for 7 %) by which reserved bytes may exceed the
    /// peak of live bytes. Further requests may get pages of free blocks instead of new memory.
    /// Infinity: no limit.
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
