// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy_batch` queues many copies with one call.

#include <vram/sim/sim_copy.hpp> // enqueue_copy

#include <cstddef>         // size_t
#include <source_location> // source_location
#include <span>            // span
#include <vector>          // vector

namespace vram {
namespace detail {

/// Queues copies of `bytes[i]` bytes from `from[i]` to `to[i]` in the order of `stream`, at the
/// host cost of one call. Returns false, and queues nothing, on a default stream or during a
/// capture, as CUDA does.
///
/// Failure   Throws `sim_error` before any copy is queued.
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
    call.throw_report();
    return true;
}

} // namespace detail
} // namespace vram
