// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `completion_flags` is a platform with streams that can write their progress to pinned memory.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstdint>

namespace vram {

/// A platform with `mark`, which makes the device write `value` to the pinned word `*where` after
/// all earlier work of the stream. A host thread polls the word with an acquire load. `mark`
/// returns false, and enqueues nothing, if such writes are not supported. The optional
/// `P::mark_seen(where)` is called after a successful poll.
template <class P>
concept completion_flags =
    requires(typename P::stream s, std::uint32_t* where, std::uint32_t value) {
        { P::mark(s, where, value) } -> std::same_as<bool>;
    };

} // namespace vram
