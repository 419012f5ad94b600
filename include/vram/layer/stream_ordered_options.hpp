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
    /// Largest number of frees on one stream that share an event. If it is 2 or more, the last
    /// frees on a stream may have no event yet. Call `retire(stream)` before you destroy a raw
    /// `cudaStream_t` in that case.
    std::size_t frees_per_event = 1;
    /// An allocation returns freed blocks to the upstream if no stream uses these blocks any more,
    /// and if they have at least this many bytes in total. If the value is 0, their size does not
    /// matter.
    std::size_t give_back_bytes = 0;
};

} // namespace vram
