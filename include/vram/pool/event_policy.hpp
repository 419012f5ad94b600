// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `event_policy` selects when a pool records events behind freed memory.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects when a pool records the event for which other streams wait to use freed memory.
enum class event_policy {
    /// An event is recorded when another stream first needs the memory. It is recorded behind
    /// everything that was freed on the stream until then. Costs nothing on streams that reuse
    /// their own memory. A raw `cudaStream_t` must be retired (`retire(stream)`) before it is
    /// destroyed; a `cuda_stream` needs no call.
    lazy,
    /// An event is recorded with every free (of a `monotonic`: with every unwind), which costs one
    /// call of the platform more. Waits are as short as possible, and streams may be destroyed
    /// after that without `retire`. Suits per-thread default streams, which share one handle.
    eager,
};

} // namespace vram
