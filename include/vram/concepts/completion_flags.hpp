// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `completion_flags` is the power to say in the host's memory how far a stream has come.

#include <concepts> // same_as
#include <cstdint>  // uint32_t

namespace vram {

/// Whether the machine can: `P::mark(stream, where, value)` has the device write `value` to pinned
/// memory when everything before it in the stream is over, for host threads that look there, with
/// an acquiring load. No call of the platform, no event and no call-back is needed to see it. It
/// says whether it did; false: this device cannot, and nothing will be written.
template <class P>
concept completion_flags =
    requires(typename P::stream s, std::uint32_t* where, std::uint32_t value) {
        { P::mark(s, where, value) } -> std::same_as<bool>;
    };

} // namespace vram
