// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_reach` tells if a stream or host thread is able to access a block.

#include <vram/sim/machine/sim_block.hpp> // sim_block, sim_parts, sim_inner_block
#include <vram/sim/machine/sim_copy_kind.hpp>
#include <vram/sim/sim_range.hpp>
#include <vram/sim/sim_report.hpp>

#include <cstddef>
#include <cstdint>
#include <optional> // optional
#include <string>   // string, to_string

namespace vram {
namespace detail {

/// Returns the innermost block at `p` of the resources that divide memory into `parts`. Returns
/// null if there is none.
[[nodiscard]] inline sim_inner_block const* sim_innermost(sim_parts* parts, std::uintptr_t p) {
    sim_inner_block* found = nullptr;
    while (parts != nullptr && parts->chunk_at(p).found) {
        sim_inner_block* const part = parts->at(p);
        if (part == nullptr) { break; }
        found = part;
        parts = part->parts.get();
    }
    return found;
}

/// Returns a report if the stream or thread of `step` cannot access `block`, else none. `copy`: the
/// kind of copy that `step` is, if it is one. `peers`: true if peer access is enabled. `parts`: the
/// blocks into which resources divide this memory, or null. The report names the innermost of them.
[[nodiscard]] inline std::optional<sim_report> sim_reach(sim_event_of const& step,
                                                         sim_block const& block, sim_range range,
                                                         sim_copy_kind copy, bool peers,
                                                         sim_parts* parts = nullptr) {
    bool const on_device = block.kind == sim_kind::device || block.kind == sim_kind::device_async;
    bool const by_host   = step.host || step.host_function;
    bool const pooled    = block.pool_peers != nullptr;
    bool const copies    = copy == sim_copy_kind::copy;
    // Measured: an ordinary copy reaches memory of `cudaMalloc` on each device. Memory of a pool
    // and mapped memory need the access that kernels need, or a copy that names both devices.
    bool const anywhere =
        copy == sim_copy_kind::peer_copy || (copies && !pooled && block.physical == 0);
    if (!on_device || anywhere) { return {}; }
    if (pooled) { peers = (*block.pool_peers)[static_cast<std::size_t>(step.device)]; }
    if (!by_host && (block.device == step.device || peers)) { return {}; }
    // nvcc 13.0 crashes on an initializer list of these members, so they are set one by one.
    sim_report mistake;
    mistake.kind    = by_host ? sim_mistake::host_access : sim_mistake::peer_access;
    mistake.second  = step;
    mistake.first   = block.allocated;
    mistake.address = range.begin();
    mistake.bytes   = range.bytes;
    mistake.block   = block.description();
    if (sim_inner_block const* const part = sim_innermost(parts, range.begin())) {
        mistake.first = part->allocated;
        mistake.block = part->description();
    }
    if (by_host) {
        mistake.missing = "copy it to host memory first";
        return mistake;
    }
    std::string const from = "device " + std::to_string(step.device);
    if (block.physical != 0) {
        mistake.missing = "no other device has access to this mapping: " + from +
                          " needs memory of another resource";
    } else if (pooled) {
        mistake.missing = "the pool must allow access from " + from + " (allow_access)";
    } else {
        mistake.missing =
            "enable peer access from " + from + " to device " + std::to_string(block.device);
    }
    if (copies) {
        mistake.missing += ", or use a stream of device " + std::to_string(block.device) +
                           ", or name both devices of the copy (cudaMemcpyPeerAsync)";
    }
    return mistake;
}

} // namespace detail
} // namespace vram
