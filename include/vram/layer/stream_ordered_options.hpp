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
    /// An event is recorded at the latest after this many frees on one stream. With 2 or more, call
    /// `retire` before a raw `cudaStream_t` is destroyed: its last frees may have no event.
    std::size_t frees_per_event = 1;
    /// An allocation returns idle freed blocks to the upstream once they have this many bytes
    /// together. 0: always.
    std::size_t give_back_bytes = 0;
};

} // namespace vram
