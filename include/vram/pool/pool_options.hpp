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
    /// Number of bytes that the constructor reserves. The number is rounded up to whole pages of
    /// virtual memory, or to whole blocks of a `slab`, if `max_size` permits that.
    std::size_t initial_size = 0;
    /// The largest number of bytes that may be reserved (obtained from the upstream, live or free)
    /// at one time. A chunk that is being returned counts until the upstream has freed it.
    std::size_t max_size = unsatisfiable;
    /// Selects when an event is recorded behind freed memory, so that other streams can wait for
    /// it: when another stream needs the memory (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// If true, streams that are being captured into graphs may allocate and free memory. Memory
    /// freed during a capture serves only captures of the same stream until `forget_captures()`.
    bool graphs = false;
    /// For virtual memory only. If true, a new block gets physical pages of free blocks before new
    /// memory is reserved. The host may wait until no stream uses these pages.
    bool remap = false;
    /// For virtual memory only. The reserved bytes may exceed the peak of live bytes by this share
    /// of the peak (0.07: 7 %). Beyond that, a request may get physical pages of free blocks
    /// instead of new memory. Infinity: there is no limit.
    double slack = std::numeric_limits<double>::infinity();
};

namespace detail {
/// Reports a broken contract with the message `what` if `remap` or `slack` is set.
constexpr void expect_no_page_options(pool_options const& o, char const* what) {
    expects(!o.remap && !(o.slack < std::numeric_limits<double>::infinity()), what);
}
} // namespace detail

} // namespace vram
