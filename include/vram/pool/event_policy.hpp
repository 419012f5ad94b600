// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `event_policy` selects when a pool records events behind freed memory.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects when a pool records the event for which other streams wait to use freed memory.
enum class event_policy {
    /// An event is recorded when another stream first needs the memory. A raw `cudaStream_t` must
    /// be retired before it is destroyed.
    lazy,
    /// Each free (in a `monotonic`, each unwind) records an event, except during a capture. A
    /// stream may then be destroyed without `retire` once its memory is freed. Suits per-thread
    /// default streams.
    eager,
};

} // namespace vram
