// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_ordered_options` are the options of a `stream_ordered` layer.

#include <vram/base/requirements.hpp>

#include <cstddef> // size_t

namespace vram {

/// The options of `stream_ordered`: how many frees share an event, and when freed blocks are
/// returned.
///
///     auto mr = cuda_resource{} | with::stream_ordered({.frees_per_event = 16});
struct stream_ordered_options {
    /// The number of frees of one stream that share an event. If it is 2 or more, a raw
    /// `cudaStream_t` must be retired (`retire`) before it is destroyed.
    std::size_t frees_per_event = 1;
    /// Freed blocks that no stream uses any more are returned to the upstream once they have this
    /// many bytes together, or if the upstream refuses a request.
    std::size_t give_back_bytes = 0;
};

} // namespace vram
