// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_key` selects the private pool of an arena for a request: by thread or by stream.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// Whose private pool a request goes to.
enum class arena_key {
    /// The calling thread's: threads do not wait for each other's locks. The choice where every
    /// thread has streams of its own.
    thread,
    /// The stream's: streams do not wait for each other's memory. The choice where one thread feeds
    /// many streams, or any thread any stream. What names no stream goes by the thread.
    stream,
};

} // namespace vram
