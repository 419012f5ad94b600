// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_refused` adds a free that a pool or a layer refused to the reports of the node.

#include <vram/base/error_text.hpp> // error, error_text
#include <vram/sim/machine/sim_observer.hpp>
#include <vram/sim/machine/sim_reach.hpp> // sim_innermost
#include <vram/sim/sim_node.hpp>

#include <cstdint>
#include <mutex> // unique_lock
#include <utility>

namespace vram {
namespace detail {

/// Returns the kind of report for a free that was refused with the error `kind`.
[[nodiscard]] constexpr sim_mistake sim_mistake_of(error_kind kind) noexcept {
    switch (kind) {
    case error_kind::double_free: return sim_mistake::double_free;
    case error_kind::wrong_size:
    case error_kind::wrong_alignment: return sim_mistake::wrong_size;
    default: return sim_mistake::foreign_free;
    }
}

/// Reports a free that a resource refused, such as a double free, to the current `sim_node`
/// (simulated machine). No other check of the node reports this free.
inline void sim_refused(error const& e) noexcept {
    try {
        sim_machine&           m = sim_node::current().machine();
        std::unique_lock const held{m.mutex};
        sim_host const&        caller = m.caller();
        auto const             at     = reinterpret_cast<std::uintptr_t>(e.pointer);
        auto const             line   = e.caller.known() ? e.caller.location() : e.where;
        sim_report             r{.kind    = sim_mistake_of(e.kind),
                                 .second  = {.name   = "refused free",
                                             .what   = sim_event_of::kind::release,
                                             .host   = true,
                                             .number = m.schedule.next_number(),
                                             .actor  = caller.number,
                                             .time   = caller.clock,
                                             .where  = line},
                                 .address = at,
                                 .bytes   = e.bytes,
                                 .missing = error_text{e}.c_str()};
        auto const             freed_before = [&r](auto const& block) {
            r.kind    = sim_mistake::double_free;
            r.first   = block.released;
            r.block   = block.description();
            r.missing = "it was freed before";
        };
        if (sim_inner_block const* const block = sim_observer{m}.block_at(at)) {
            r.block = block->description();
            if (block->freed) { r.first = block->released; }
            // A layer of two upstreams may pass a second free to the wrong one of them. If the
            // refused free itself freed the block (`last_freed`), then it was live before.
            bool const before = block->freed && last_freed != at;
            if (before && r.kind == sim_mistake::foreign_free) { freed_before(*block); }
        } else if (sim_space* const space = m.memory.space_of(at)) {
            // A resource does not know the blocks of a chunk that it has returned. The blocks of
            // `guarded` begin behind a fence.
            sim_block const* const       chunk = space->before(at);
            sim_inner_block const* const part =
                chunk != nullptr ? sim_innermost(chunk->parts.get(), at) : nullptr;
            if (part != nullptr && part->freed && r.kind == sim_mistake::foreign_free) {
                freed_before(*part);
            } else if (chunk != nullptr && chunk->freed && at < chunk->end()) {
                freed_before(*chunk);
            }
        }
        m.checker.report(std::move(r));
    } catch (...) {}
}

} // namespace detail
} // namespace vram
