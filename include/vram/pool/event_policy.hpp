// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `event_policy` selects when a pool records events behind freed memory.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects when a pool records the event for which other streams wait to use freed memory.
enum class event_policy {
    /// A free records no event. An event is recorded when another stream first needs the memory.
    /// `retire` must be called before a raw `cudaStream_t` is destroyed.
    lazy,
    /// Each free records an event, except during a capture. In a `monotonic`, each unwind does so
    /// instead. If all memory of a stream was freed, the stream may then be destroyed without
    /// `retire`. Suits per-thread default streams.
    eager,
};

} // namespace vram
