// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_find_freed` finds the block that a free names, and reports mistakes of the free.

#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <string> // string, to_string
#include <utility>

namespace vram {
namespace detail {

/// Finds the block that the operation `step` frees: a live block that begins at `p` and was
/// allocated from `pool`. If `pool` is null, the block must not be from a pool. If there is no such
/// block, reports the mistake and returns null. If only the size `bytes` is wrong, reports that and
/// returns the block.
inline sim_block* sim_find_freed(sim_machine& m, sim_kind kind, int device, void* p,
                                 std::size_t bytes, sim_event_of step,
                                 sim_pool const* pool = nullptr) {
    auto const       at    = reinterpret_cast<std::uintptr_t>(p);
    sim_space&       space = m.memory.space(kind, device);
    sim_block* const block = space.holds(at) ? space.before(at) : nullptr;
    step.what              = sim_event_of::kind::release;
    auto const report      = [&](sim_mistake mistake, sim_event_of const& first, std::size_t size,
                            std::string why) {
        if (!m.checker.on().frees) { return; }
        m.checker.report({mistake, step, first, at, size, std::move(why)});
    };
    if (block == nullptr || block->begin != at || block->kind != kind) {
        report(sim_mistake::foreign_free, {}, bytes, "no block of this memory starts there");
        return nullptr;
    }
    if (block->freed) {
        report(sim_mistake::double_free, block->released, block->bytes, "it was freed before");
        return nullptr;
    }
    if (block->pool != pool) {
        report(sim_mistake::foreign_free, block->allocated, bytes,
               "it was allocated from another pool");
        return nullptr;
    }
    if (block->bytes != bytes) {
        report(sim_mistake::wrong_size, block->allocated, bytes,
               "it was allocated with " + std::to_string(block->bytes) + " bytes");
    }
    return block;
}

} // namespace detail
} // namespace vram
