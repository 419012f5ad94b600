// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_options` are the numbers that an arena is made with.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/arena_key.hpp>    // arena_key
#include <vram/pool/event_policy.hpp> // event_policy

#include <cstddef> // size_t

namespace vram {

/// Every option has a default that suits a process with a device of its own.
struct arena_options {
    std::size_t max_size = unsatisfiable; ///< bytes that all private pools hold at most
    /// Private pools at most, rounded up to a power of two. 0: one for each thread that the machine
    /// runs at once and one more, at most 64. Each is made when it is first needed.
    unsigned     count  = 0;
    arena_key    key    = arena_key::thread;
    event_policy events = event_policy::lazy; ///< as in `pool_options`
    bool         graphs = false;              ///< as in `pool_options`
    /// Above so many bytes held, and again when it is a quarter more than after the last time, all
    /// private pools give back the idle chunks that nobody uses any more, for others to have. Over
    /// a pool that is bookkeeping; over device memory it is the driver, which may wait.
    std::size_t trim_above = 1_GiB;
};

} // namespace vram
