// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy_batch` begins many copies with one call.

#include <vram/sim/sim_copy.hpp> // enqueue_copy

#include <cstddef>         // size_t
#include <source_location> // source_location
#include <span>            // span
#include <vector>          // vector

namespace vram {

/// Begins the copies `from[i]` to `to[i]` of `bytes[i]` bytes in the order of `stream`, for the
/// host's time of one call. False, and nothing is begun: not on the default streams, and not in a
/// capture, as CUDA.
///
/// Failure   `sim_error`, before the first of them
inline bool sim_copy_batch(sim_stream_view stream, std::span<void* const> to,
                           std::span<void const* const> from, std::span<std::size_t const> bytes,
                           std::source_location where = std::source_location::current()) {
    if (to.empty()) { return true; }
    sim_stream_state& s = stream.state();
    if (s.legacy || s.capture != nullptr) { return false; }
    sim_call call{*s.machine, sim_call_kind::copy, s.device, where, bytes.front()};
    call.admit();
    std::vector<sim_task::use> uses; // of all copies: within a batch they have no order
    for (std::size_t i = 0; i < to.size(); ++i) {
        uses.push_back({{from[i], bytes[i]}, sim_access::read});
        uses.push_back({{to[i], bytes[i]}, sim_access::write});
    }
    detail::expect_disjoint(call, s, uses, sim_mistake::race,
                            "the copies of a batch have no order among themselves");
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (bytes[i] == 0) { continue; }
        detail::enqueue_copy(call, s,
                             {.to         = to[i],
                              .to_pitch   = bytes[i],
                              .to_slice   = bytes[i],
                              .from       = from[i],
                              .from_pitch = bytes[i],
                              .from_slice = bytes[i],
                              .width      = bytes[i]});
    }
    call.tell();
    return true;
}

} // namespace vram
