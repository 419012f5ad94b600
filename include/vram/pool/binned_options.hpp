// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `binned_options` are the options of a `binned`.

#include <vram/base/align.hpp> // unsatisfiable
#include <vram/base/bytes.hpp> // literals
#include <vram/pool/event_policy.hpp>

#include <cstddef>

namespace vram {

/// The options of `binned`, which allocates small blocks from size classes and passes larger
/// requests to its upstream.
struct binned_options {
    /// Largest size that a size class serves, rounded up to the size of a class. Larger requests
    /// are passed to the upstream.
    std::size_t largest = 1_MiB;
    /// Largest number of bytes to obtain from the upstream, for chunks and large blocks together.
    std::size_t max_size = unsatisfiable;
    /// Selects when an event is recorded on the stream that freed memory: when another stream needs
    /// the memory (`lazy`), or with every free outside a capture (`eager`).
    event_policy events = event_policy::lazy;
    bool         graphs = false; ///< true: streams may be captured while they use the resource
};

} // namespace vram
