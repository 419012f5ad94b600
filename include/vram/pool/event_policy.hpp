// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `event_policy` is when a pool takes note of how far a stream has come.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// When the event is recorded that other streams wait for before they use memory freed on a stream.
enum class event_policy {
    /// When another stream first needs it; one event covers everything freed on the stream so far.
    /// Costs nothing on streams that reuse their own memory. A raw `cudaStream_t` must be retired
    /// (`retire(stream)`) before it is destroyed; a `cuda_stream` needs no call.
    lazy,
    /// With every free. Dearer by one call of the platform; waits are as short as can be, and
    /// streams may be destroyed unannounced. The choice for streams that each thread has one of
    /// under one name.
    eager,
};

} // namespace vram
