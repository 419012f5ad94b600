// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `completion_flags` is a platform with streams that can write their progress to pinned memory.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstdint>

namespace vram {

/// `P::mark(stream, where, value)` makes the device write `value` to `*where`, a word in pinned
/// memory, after all earlier work of the stream. A host thread polls the word with an acquire load,
/// without a call to the platform, an event or a callback. `mark` returns true if it has enqueued
/// the write. It returns false, and enqueues nothing, if the driver, the device or the memory does
/// not support such writes.
///
/// A platform may also have `P::mark_seen(where)`, which does not throw. vram calls it after each
/// poll that read the value for which it waited, so that a checker of the platform knows the order.
template <class P>
concept completion_flags =
    requires(typename P::stream s, std::uint32_t* where, std::uint32_t value) {
        { P::mark(s, where, value) } -> std::same_as<bool>;
    };

} // namespace vram
