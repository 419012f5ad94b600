// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_ordered_options` are the options of a `stream_ordered` layer.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// The options of `stream_ordered`: how many frees share an event, and when freed blocks are
/// returned.
///
///     auto mr = cuda_resource{} | with::stream_ordered({.frees_per_event = 16});
struct stream_ordered_options {
    /// The number of frees on one stream after which an event is recorded behind all of them. An
    /// allocation or `trim` also records an event behind frees that have none. If the number is 2
    /// or more, a raw `cudaStream_t` must be passed to `retire` before it is destroyed.
    std::size_t frees_per_event = 1;
    /// An allocation returns freed blocks that no stream uses any more to the upstream if they have
    /// at least this many bytes together (0: always), or if the upstream refuses the request.
    std::size_t give_back_bytes = 0;
};

} // namespace vram
