// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_observer` passes the events of resources to the checker.

#include <vram/concepts/observer.hpp> // memory_event
#include <vram/sim/machine/report_live.hpp>
#include <vram/sim/machine/sim_conflicts.hpp>
#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_parts.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <algorithm> // max, min
#include <cstddef>
#include <cstdint>
#include <memory> // make_unique, unique_ptr
#include <mutex>  // unique_lock
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Address of the block that the calling thread's last event freed; 0 if it freed none. If
/// `free_refused` follows (the resource refuses the free), that block is live again.
inline constinit thread_local std::uintptr_t last_freed = 0;

/// Records the events of resources (such as a block allocated or freed) in the memory of one node
/// (simulated machine). Reports events in the wrong order. Each free must happen after the uses of
/// its block, by calls of the program itself. Each allocation must happen after earlier frees of
/// its memory, by calls of the program or waits inside resources.
///
/// Failure   Members throw `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_observer {
public:
    using event = memory_event<sim_stream_view>;

    explicit sim_observer(sim_machine& machine)
        : m_{machine},
          self_{detail::self(machine.id)},
          host_{machine.caller(self_)},
          clocks_{machine.checker.scratch} {}

    /// Passes an event of a resource to the node (simulated machine) that contains the event's
    /// memory. Ignores the event if no node contains the memory.
    static void observe(event const& e) noexcept {
        if (e.kind > memory_event_kind::chunk_removed) { return; }
        sim_node::find([&](sim_machine& m) {
            std::unique_lock const held{m.mutex};
            if (m.memory.space_of(address(e)) == nullptr) { return false; }
            sim_checks const& on = m.checker.on();
            if (!on.races && !on.bounds && !on.uninitialised) { return true; }
            try {
                sim_observer{m}.apply(e);
            } catch (...) { // no host memory
                m.checker.miss_event();
            }
            return true;
        });
    }

    /// Returns the innermost block of a resource that begins at `p`, live or freed, or null if
    /// there is none.
    [[nodiscard]] sim_inner_block* block_at(std::uintptr_t p) {
        sim_inner_block* found = nullptr;
        descend(p, [&](sim_inner_block& part) {
            if (part.begin == p) { found = &part; }
        });
        return found;
    }

private:
    /// A block, or a range of reserved addresses, with the blocks that resources allocated in it.
    struct place {
        /// Pointer to the record of the chunks and blocks in this block or address range. Null if a
        /// search found no block or range.
        std::unique_ptr<sim_parts>* parts = nullptr;
        std::uintptr_t              begin = 0;
        /// Access history of the block; null for reserved addresses.
        interval_map<sim_history>* history   = nullptr;
        sim_event_of const*        allocated = nullptr;
    };
    struct path {
        /// The innermost live block, or the range of reserved addresses, that contains the searched
        /// address. Empty if there is none.
        place innermost;
        /// The innermost live block, or range of reserved addresses, with a chunk (memory that a
        /// resource divides) at the searched address. Empty if there is no chunk.
        place divided;
        /// The block, live or freed, at the searched address in the innermost chunk there. Null if
        /// that chunk has no block at the address.
        sim_inner_block* part = nullptr;
    };

    static std::uintptr_t address(event const& e) noexcept {
        return reinterpret_cast<std::uintptr_t>(e.memory);
    }
    template <class Block>
    static place of(Block& block) noexcept {
        return {&block.parts, block.begin, &block.history, &block.allocated};
    }
    [[nodiscard]] place root(std::uintptr_t p) {
        if (sim_reservation* const r = m_.memory.reservation_of(p)) {
            return {&r->parts, r->begin, nullptr, &r->reserved};
        }
        sim_space* const space = m_.memory.space_of(p);
        sim_block* const block = space != nullptr ? space->before(p) : nullptr;
        bool const       live  = block != nullptr && !block->freed && p < block->end();
        return live ? of(*block) : place{};
    }
    /// Finds the nested blocks that contain `p`. Calls `visit(block)` for each that a resource
    /// allocated, the outermost first, and ends at a freed one.
    template <class Visit>
    path descend(std::uintptr_t p, Visit visit) {
        path found{.innermost = root(p), .divided = {}};
        while (found.innermost.parts != nullptr && *found.innermost.parts != nullptr &&
               (*found.innermost.parts)->chunk_at(p).found) {
            found.divided = found.innermost;
            found.part    = (*found.divided.parts)->at(p);
            if (found.part == nullptr) { break; }
            visit(*found.part);
            if (found.part->freed) { break; }
            found.innermost = of(*found.part);
        }
        return found;
    }
    path descend(std::uintptr_t p) {
        return descend(p, [](sim_inner_block const&) {});
    }

    void apply(event const& e) {
        if (e.kind != memory_event_kind::free_refused) { last_freed = 0; }
        switch (e.kind) {
        case memory_event_kind::allocated: return allocated(e);
        case memory_event_kind::freed: return freed(e);
        case memory_event_kind::free_refused: return keep(address(e));
        case memory_event_kind::all_freed: return all_freed(e);
        case memory_event_kind::chunk_added: return chunk_added(address(e), e.bytes);
        case memory_event_kind::chunk_removed: return chunk_removed(address(e), e.bytes);
        default: return;
        }
    }

    void chunk_added(std::uintptr_t p, std::size_t bytes) {
        place const in = descend(p).innermost;
        if (in.parts == nullptr) { return; }
        if (*in.parts == nullptr) { *in.parts = std::make_unique<sim_parts>(); }
        (*in.parts)->add_chunk(p, p + bytes);
    }
    /// Removes a chunk, because its resource no longer divides it. Reports blocks that are still
    /// live there as leaks. For each address of the chunk, stores the last allocation or free there
    /// in the access history of the enclosing block.
    void chunk_removed(std::uintptr_t p, std::size_t bytes) {
        place const in = descend(p).divided;
        if (in.parts == nullptr) { return; }
        sim_parts& parts = **in.parts;
        report_live(m_, parts, p, p + bytes);
        if (in.history != nullptr) {
            auto const assign = [&](std::uintptr_t from, std::uintptr_t to, sim_event_of last) {
                last.what = sim_event_of::kind::release;
                in.history->assign(from - in.begin, to - in.begin, {last, {}});
            };
            assign(p, p + bytes, *in.allocated);
            parts.for_each(p, p + bytes,
                           [&](sim_inner_block& part, std::uintptr_t from, std::uintptr_t to) {
                               bool const known = part.freed && !part.disputed;
                               assign(from, to, known ? part.released : part.allocated);
                           });
        }
        parts.remove_chunk(p, p + bytes);
        if (parts.empty()) { *in.parts = nullptr; }
    }

    void allocated(event const& e) {
        std::uintptr_t const p  = address(e);
        path const           to = descend(p);
        place const          in = to.divided;
        if (in.parts == nullptr) { return; }
        m_.checker.names.forget({e.memory, e.bytes});
        sim_stream_state* const on    = stream_of(e);
        sim_stream_state* const s     = e.any_stream ? nullptr : on;
        bool const              graph = on != nullptr && on->capture != nullptr;
        sim_event_of const      step  = make_step(e, s, "allocate", sim_event_of::kind::allocation);
        sim_conflicts           found{step, clocks_, true};
        sim_event_of            before{}; // the free of an earlier block at the address `p`, if any
        if (!graph && in.history != nullptr) {
            in.history->visit(p - in.begin, p + e.bytes - in.begin,
                              [&](std::size_t from, std::size_t end, sim_history const& h) {
                                  found.collect(in.begin + from, in.begin + end, h);
                              });
        }
        // True if a capture makes this allocation in memory that a captured graph already uses.
        bool       shared  = false;
        auto const replace = [&](sim_inner_block& old, std::uintptr_t from, std::uintptr_t end) {
            shared = shared || (graph && old.graph);
            if (graph || old.graph) { return; }
            if (!old.freed) { return sim_checker::collect(found, old, from, end); }
            if (!old.disputed) { found.look(from, end, old.released); }
            if (from == p) { before = old.released; }
        };
        sim_inner_block* part = to.part;
        if (part != nullptr && part->is_whole(p, e.bytes)) {
            replace(*part, p, p + e.bytes);
            part->restart();
        } else {
            (*in.parts)->for_each(p, p + e.bytes, replace);
            part = &(*in.parts)->put({.begin = p, .bytes = e.bytes});
        }
        part->resource           = e.name;
        part->graph              = graph;
        part->shared             = shared;
        part->allocated          = step;
        part->before             = before;
        sim_checks const& checks = m_.checker.on();
        bool const        kept   = checks.races || checks.uninitialised;
        // Begins a new access history of the block, with this allocation as the first entry. The
        // history of a captured allocation begins empty, because launches of the graph need not
        // happen after this call. If no check needs a history, its size is 0.
        part->history.reset(kept ? part->bytes : 0, graph ? sim_history{} : sim_history{step, {}});
        if (checks.races) { m_.checker.report_all(found, *part); }
    }

    void freed(event const& e) {
        sim_inner_block* const part = block_at(address(e));
        // If the block was freed before, the resource will refuse one of the two frees. It is
        // unknown which one: an `arena` may process the second free first.
        if (part != nullptr && part->freed) { part->disputed = true; }
        // Ignores a free that the resource will refuse, such as one with a wrong size.
        if (part == nullptr || part->freed || part->graph_freed) { return; }
        if (part->bytes != e.bytes) { return; }
        sim_stream_state* const s    = stream_of(e);
        sim_event_of const      step = make_step(e, s, "free", sim_event_of::kind::release);
        last_freed                   = part->begin;
        bool const kept              = part->graph && (part->shared || e.until_reset);
        if (kept || (s != nullptr && s->capture)) {
            part->graph = part->graph_freed = true;
            part->released                  = step;
            return;
        }
        // From now on, accesses to the block by launches of captured graphs are reported.
        part->graph = false;
        sim_conflicts found{step, clocks_};
        found.uses_only();
        // Collects the uses of the block that do not happen before the free. If the stream of `e`
        // was destroyed, no use can be too late, because the resource waits for the device.
        if (e.stream.has_value() == (s != nullptr)) {
            sim_checker::collect(found, *part, part->begin, part->end());
        }
        // Stores the block in `undo`. If its access history has several entries, stores the
        // history, too. `keep` restores the history if the resource refuses the free.
        m_.checker.undo = {part->begin, {}};
        if (part->history.pieces() > 1) { m_.checker.undo.history.swap(part->history); }
        release(*part, step);
        report_late(found, *part);
    }
    /// Makes the block at `p` live again if the last event of this thread freed it. Called because
    /// the resource has refused that free.
    void keep(std::uintptr_t p) {
        sim_inner_block* const part = block_at(p);
        if (part == nullptr || last_freed != p) { return; }
        part->graph_freed = false;
        if (!part->freed) { return; }
        part->freed          = false;
        sim_checks const& on = m_.checker.on();
        if (part->history.size() != 0) { return; }
        if (m_.checker.undo.begin == p) {
            part->history.swap(m_.checker.undo.history);
        } else if (on.races || on.uninitialised) {
            part->history = {part->bytes, {part->allocated, {}}};
        }
    }
    /// Marks the blocks that begin in the range of the event `e` as freed, except blocks of
    /// captured graphs. Reports uses of the blocks that do not happen before `e`. Ignores uses on
    /// streams that allocated or freed one of the blocks, because the resource waits for these
    /// streams.
    void all_freed(event const& e) {
        place const in = descend(address(e)).divided;
        if (in.parts == nullptr) { return; }
        sim_stream_state* const  s    = stream_of(e);
        sim_event_of const       step = make_step(e, s, "free all", sim_event_of::kind::release);
        std::vector<std::size_t> awaited;
        auto const               each = [&](auto visit) {
            auto const live = [&](sim_inner_block& part, std::uintptr_t, std::uintptr_t) {
                if (part.begin >= address(e) && !part.graph) { visit(part); }
            };
            (*in.parts)->for_each(address(e), address(e) + e.bytes, live);
        };
        each([&](sim_inner_block const& part) {
            awaited.push_back(slot_of(part.allocated));
            if (part.freed) { awaited.push_back(part.released.slot); }
        });
        each([&](sim_inner_block& part) {
            if (part.freed) { return; }
            sim_conflicts found{step, clocks_};
            found.uses_only();
            sim_checker::collect(found, part, part.begin, part.end());
            found.ignore(awaited);
            release(part, step);
            if (part.history.pieces() > 1) { part.history = {}; }
            report_late(found, part);
        });
    }
    static void release(sim_inner_block& part, sim_event_of const& step) {
        part.freed    = true;
        part.released = step;
        part.parts    = nullptr;
    }
    void report_late(sim_conflicts const& found, sim_inner_block const& part) {
        sim_checks const& on   = m_.checker.on();
        bool const        told = on.frees && on.races && !on_lost_device(m_, part.begin);
        if (told) { m_.checker.report_all(found, part); }
    }

    /// Returns the index in vector clocks of the stream or thread that made `allocation`. For the
    /// legacy default stream, returns the index of its operations, not that of its allocations.
    [[nodiscard]] std::size_t slot_of(sim_event_of const& allocation) const noexcept {
        for (sim_device_state const& d : m_.devices) {
            bool const by_it = !allocation.host && allocation.actor == d.legacy->id;
            if (by_it) { return d.legacy->slot; }
        }
        return allocation.slot;
    }
    /// Returns the stream on which the event happened. Returns null if the event has no stream, or
    /// if that stream was destroyed or belongs to another node (simulated machine).
    [[nodiscard]] sim_stream_state* stream_of(event const& e) {
        if (!e.stream) { return nullptr; }
        sim_stream_state* s = e.stream->get();
        if (s == nullptr) {
            bool const each = m_.options.default_stream == sim_default_stream::per_thread;
            auto const at   = static_cast<std::size_t>(self_.device);
            s               = m_.at(self_.device).legacy;
            if (each) {
                self_.streams.resize(static_cast<std::size_t>(m_.options.devices));
                if (self_.streams[at] == nullptr) {
                    self_.streams[at] = &m_.make_stream(host_, self_.device, true);
                }
                s = self_.streams[at];
            }
        }
        return s->machine == &m_ && s->id != 0 ? s : nullptr;
    }

    /// Returns a description of the event `e` as a step of the stream `s`, or of the calling thread
    /// if `s` is null. Makes `clocks_` point to the vector clocks of the work before this step.
    sim_event_of make_step(event const& e, sim_stream_state* s, char const* name,
                           sim_event_of::kind what) {
        bool const allocates = what == sim_event_of::kind::allocation;
        clocks_.assign(1, &host_.vclock);
        if (s == nullptr) {
            host_.advance();
        } else {
            // In vector clocks, an allocation is a step of its stream, but a free is not.
            if (allocates && s->legacy) {
                // An allocation on the legacy default stream has a counter of its own, because
                // blocking streams do not wait for it.
                m_.add_allocation(*s);
            } else if (allocates) {
                s->count = s->vclock.advance(s->slot);
                m_.changed(*s);
            }
            clocks_.push_back(&s->vclock);
            sim_device_state const& d = m_.at(s->device);
            if (s->legacy) {
                clocks_.push_back(&s->allocated);
                for (sim_stream_state const* const other : d.unfollowed) {
                    clocks_.push_back(&other->vclock);
                }
                clocks_.push_back(&d.blocking_orphans_vclock);
            } else if (s->blocking && d.legacy->work != s->legacy_seen) {
                clocks_.push_back(&d.legacy->vclock);
            }
        }
        bool const apart = s != nullptr && allocates && s->legacy;
        return {.name   = name,
                .what   = what,
                .host   = s == nullptr,
                .number = m_.schedule.count(),
                .actor  = s != nullptr ? s->id.load() : host_.number,
                .device = s != nullptr ? s->device : 0,
                .time   = host_.clock,
                .where  = e.at.location(),
                .slot   = apart          ? s->allocation_slot
                          : s != nullptr ? s->slot
                                         : host_.slot,
                .count  = apart          ? s->allocations
                          : s != nullptr ? s->count
                                         : host_.vclock[host_.slot]};
    }

    sim_machine&                      m_;
    sim_self&                         self_;
    sim_host&                         host_;
    std::vector<vector_clock const*>& clocks_;
};

} // namespace detail
} // namespace vram
