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

/// Records the events of resources (such as a block allocated or freed) in the memory of one node,
/// and reports those in the wrong order. The program's own calls must order a free after the uses
/// of its block. An allocation must follow earlier frees of its memory; here, waits by resources
/// count too.
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

    /// Passes an event of a resource to the simulated node that has its memory. Ignores other
    /// memory.
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
        /// Points to the chunks and blocks in this block or range of addresses. Null if this object
        /// is empty: no block or range was found.
        std::unique_ptr<sim_parts>* parts = nullptr;
        std::uintptr_t              begin = 0;
        /// Access history of the block; null for reserved addresses.
        interval_map<sim_history>* history   = nullptr;
        sim_event_of const*        allocated = nullptr;
    };
    struct path {
        /// The innermost live block (or reserved range of addresses) that contains the address
        /// searched for; empty if there is none.
        place innermost;
        /// The innermost live block (or reserved range of addresses) with a chunk that contains the
        /// address; empty if no resource has a chunk there.
        place divided;
        /// The block in `divided` that contains the address, live or freed. Null if there is none.
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
    /// Removes a chunk, which a resource no longer divides. The access history of the enclosing
    /// block begins anew there, with the last free or allocation of each address.
    void chunk_removed(std::uintptr_t p, std::size_t bytes) {
        place const in = descend(p).divided;
        if (in.parts == nullptr) { return; }
        sim_parts& parts = **in.parts;
        report_live(m_.checker, parts, p, p + bytes);
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
        sim_event_of            before{}; // free of the block that was at this address before
        if (!graph && in.history != nullptr) {
            in.history->visit(p - in.begin, p + e.bytes - in.begin,
                              [&](std::size_t from, std::size_t end, sim_history const& h) {
                                  found.collect(in.begin + from, in.begin + end, h);
                              });
        }
        // True if the allocation is captured, and a captured graph had a block in this memory
        // before.
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
        // Begins the access history with this allocation; for a captured allocation empty, so that
        // launches are not compared with this call. Keeps none if no check needs it.
        part->history.reset(kept ? part->bytes : 0, graph ? sim_history{} : sim_history{step, {}});
        if (checks.races) { m_.checker.report_all(found, *part); }
    }

    void freed(event const& e) {
        sim_inner_block* const part = block_at(address(e));
        // After a double free, it is unknown which of the two the resource refuses, because an
        // `arena` may process the second first.
        if (part != nullptr && part->freed) { part->disputed = true; }
        // The resource refuses a double free and a free with a wrong size, so these change nothing.
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
        // If a captured graph used the block, this free, outside a capture, ends that use: accesses
        // by later launches are reported.
        part->graph = false;
        sim_conflicts found{step, clocks_};
        found.uses_only();
        // Checks that the free follows the uses of the block. Not if the stream of `e` was
        // destroyed (`s` is null): the resource then waits for the device before it reuses the
        // block.
        if (e.stream.has_value() == (s != nullptr)) {
            sim_checker::collect(found, *part, part->begin, part->end());
        }
        // A freed block keeps no access history of several pieces. It is stored here, so that
        // `keep` can restore it if the resource refuses the free.
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
    /// Marks the blocks that begin in the range of `e` as freed, except those of captured graphs.
    /// Reports unordered uses, but not on streams of these blocks: the resource waits for them.
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
        sim_checks const& on = m_.checker.on();
        if (on.frees && on.races) { m_.checker.report_all(found, part); }
    }

    /// Returns the index in vector clocks of the stream or thread of `allocation`. For the legacy
    /// default stream, which has a second index for allocations, returns that of its operations.
    [[nodiscard]] std::size_t slot_of(sim_event_of const& allocation) const noexcept {
        for (sim_device_state const& d : m_.devices) {
            bool const by_it = !allocation.host && allocation.actor == d.legacy->id;
            if (by_it) { return d.legacy->slot; }
        }
        return allocation.slot;
    }
    /// Returns the stream of the event. Returns null if it has none, if the stream was destroyed,
    /// or if it belongs to another node.
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

    /// Returns `e` as an operation of the stream `s`, or of the calling thread if `s` is null.
    /// Fills `clocks_` with the vector clocks of the work that happens before it.
    sim_event_of make_step(event const& e, sim_stream_state* s, char const* name,
                           sim_event_of::kind what) {
        bool const allocates = what == sim_event_of::kind::allocation;
        clocks_.assign(1, &host_.vclock);
        if (s == nullptr) {
            host_.advance();
        } else {
            // In vector clocks, an allocation is a new step of its stream; a free is not.
            if (allocates && s->legacy) {
                // The legacy default stream counts allocations separately from its operations:
                // blocking streams follow the allocation only after a later operation of the legacy
                // stream.
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
