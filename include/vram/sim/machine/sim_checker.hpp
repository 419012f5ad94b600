// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_checker` detects races and other wrong accesses to simulated memory.

#include <vram/sim/machine/sim_actors.hpp>
#include <vram/sim/machine/sim_advice.hpp>
#include <vram/sim/machine/sim_calling_part.hpp>
#include <vram/sim/machine/sim_conflicts.hpp>
#include <vram/sim/machine/sim_history.hpp>
#include <vram/sim/machine/sim_late_order.hpp>
#include <vram/sim/machine/sim_memory.hpp> // sim_memory, sim_block
#include <vram/sim/machine/sim_names.hpp>
#include <vram/sim/machine/sim_reach.hpp>
#include <vram/sim/machine/sim_report_log.hpp>
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_range.hpp> // sim_range, sim_access
#include <vram/sim/sim_report.hpp>

#include <algorithm> // min
#include <cstddef>
#include <cstdint>
#include <functional> // function
#include <string>     // string
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Finds races: accesses to one byte that no synchronisation orders. Compares each declared access
/// with earlier accesses of the same bytes by vector clocks (FastTrack, Flanagan and Freund 2009).
/// Only calls of the program create an order. The times of operations do not matter.
///
/// Threads   The caller holds the machine's lock.
/// Cost      O(log intervals) for each declared range. An operation without ranges costs nothing.
class sim_checker {
public:
    sim_checker(sim_memory& memory, sim_options const& options)
        : log{options},
          memory_{memory},
          on_{options.checks},
          page_tables_{options.host_page_tables} {
        pageable_.kind = sim_kind::pageable;
    }

    [[nodiscard]] sim_checks const& on() const noexcept { return on_; }
    /// Only for `sim_change_checks`, which also starts the access histories that checks need.
    void set(sim_checks const& checks) noexcept { on_ = checks; }
    /// The race check ignores all operations with numbers below this one.
    std::uint64_t since = 0;

    /// Returns an index in vector clocks for a new stream or host thread. `creator` is the vector
    /// clock of the creating thread.
    std::size_t actor(vector_clock const& creator) { return actors_.take(creator); }
    /// Records that the stream or thread with the index `slot` has ended after `count` steps, so
    /// that `actor` may return the index again.
    void retire(std::size_t slot, std::uint64_t count) noexcept { actors_.retire(slot, count); }

    /// Checks the access of the operation `step` to `range`, and records the access. `clock`: what
    /// happens before `step`. `copy`: the kind of copy that `step` is, or `none`. `peers`: true if
    /// the device of `step` has peer access to the device of the memory.
    void touch(sim_event_of step, vector_clock const& clock, sim_range range, sim_access access,
               sim_copy_kind copy, bool peers) {
        bool const any = on_.races || on_.bounds || on_.residency || on_.uninitialised;
        if (range.bytes == 0 || !any) { return; }
        step.what = kind_of(access);
        late_.note(step, clock);
        if (sim_reservation* const pages = memory_.reservation_of(range.begin())) {
            return touch(*pages, step, clock, range, access, copy);
        }
        sim_block* const block = place(step, range, copy, peers);
        // If this is true, a read of pageable memory is not recorded: CUDA has read the source of
        // the copy when the call returns. This does not hold in graphs and with `host_page_tables`.
        bool const staged = copy != sim_copy_kind::none && !step.graph && !page_tables_;
        bool const reads  = access == sim_access::read;
        if (block == nullptr || (block == &pageable_ && staged && reads)) { return; }
        if (block->parts != nullptr) {
            touch_parts(*block, *block->parts, step, clock, range, access);
        } else {
            touch(*block, step, clock, range, access);
        }
    }

    void allocated(sim_block& block, sim_event_of step) {
        step.what       = sim_event_of::kind::allocation;
        block.allocated = step;
        names.forget({reinterpret_cast<void const*>(block.begin), block.bytes});
        if (on_.races || on_.uninitialised) { block.history = {block.bytes, {step, {}}}; }
    }

    /// Starts the access history of new physical memory: no operation has accessed it yet.
    void made(sim_physical& memory) {
        if (on_.races || on_.uninitialised) { memory.history = {memory.bytes, memory.unwritten()}; }
    }

    /// Records `step` as the free of `block`, and reports accesses that do not happen before this
    /// free. If `fully` is true, waits inside resources, such as pools, also count as order.
    template <class Block>
    void released(Block& block, sim_event_of step, vector_clock const& clock, bool fully) {
        step.what      = sim_event_of::kind::release;
        block.released = step;
        late_.note(step, clock);
        if (!on_.frees || !on_.races || block.history.size() == 0) { return; }
        vector_clock const* const all[] = {&clock};
        sim_conflicts             found{step, all, fully};
        collect(found, block, block.begin, block.end());
        report_all(found, block);
    }

    /// Begins a wait of a stream for work that is not queued yet. The index `slot` and the number
    /// `count` identify the wait in vector clocks.
    void begin_wait(std::size_t slot, std::uint64_t count) { late_.begin(slot, count); }
    /// Ends the wait that `slot` and `count` identify. `then` is the vector clock of the awaited
    /// work. Reports the stored conflicts that no wait orders.
    void end_wait(std::size_t slot, std::uint64_t count, vector_clock const& then) {
        for (sim_late_order::conflict const& c : late_.resolve(slot, count, then)) {
            report_pair(c.second, c.first, c.begin, c.end - c.begin, c.block);
        }
        unchecked.waits += std::exchange(late_.lost, 0U);
    }

    /// Called if an allocation, a free or a chunk of a resource, such as a pool, was not recorded.
    /// From then on, accesses outside of the known blocks of resources are not reported.
    void miss_event() noexcept { ++unchecked.resource_events; }
    /// Called if an access, or the order of two operations, was not stored for lack of host memory.
    /// From then on, no races are reported.
    void lose_order() noexcept {
        ++unchecked.orders;
        on_.races = false;
    }

    /// The access history of the last freed block, to restore it if the resource refuses the free.
    struct freed_block {
        std::uintptr_t            begin = 0;
        interval_map<sim_history> history;
    };
    freed_block undo;
    /// A list of vector clocks that `sim_observer` reuses, so that it rarely allocates host memory.
    std::vector<vector_clock const*> scratch;

    /// Reports the conflicts in `found` that no wait of a stream orders. If the order depends on
    /// work that is not queued yet, stores the conflict until `end_wait`.
    template <class Block>
    void report_all(sim_conflicts const& found, Block const& memory) {
        if (!found.found().empty()) [[unlikely]] { report_conflicts(found, memory.description()); }
    }
    void report_conflicts(sim_conflicts const& found, sim_block_of const& block) {
        for (sim_conflicts::conflict const& each : found.found()) {
            if (late_.used()) {
                vector_clock                 clock = found.clock();
                sim_late_order::answer const order = late_.ask(each.with, found.step(), clock);
                if (order == sim_late_order::answer::open) {
                    late_.keep(
                        {found.step(), each.with, std::move(clock), each.begin, each.end, block});
                }
                unchecked.waits += order == sim_late_order::answer::lost;
                if (order != sim_late_order::answer::unordered) { continue; }
            }
            report_pair(found.step(), each.with, each.begin, each.end - each.begin, block);
        }
    }
    /// Adds to `found` the accesses to [begin, end) of `block` that conflict with `found.step()`.
    template <class Block>
    static void collect(sim_conflicts& found, Block& block, std::uintptr_t begin,
                        std::uintptr_t end) {
        if (block.history.size() == 0) { return; }
        block.history.change(begin - block.begin, end - block.begin,
                             [&](std::size_t from, std::size_t to, sim_history& h) {
                                 found.collect(block.begin + from, block.begin + to, h);
                             });
    }

    /// Adds a report to those of the simulated machine, with the names of its streams, threads and
    /// memory. A repeated report is only counted.
    void report(sim_report r) {
        if (log.repeated(r.kind, r.second, r.first)) { return; }
        names.complete(r);
        log.add(std::move(r));
    }

    [[nodiscard]] std::vector<sim_report> const& reports() const noexcept { return log.all(); }

    /// Returns true if the operation with this index and count in vector clocks happens before all
    /// later operations of all streams and threads.
    std::function<bool(std::size_t slot, std::uint64_t count)> is_past;

    sim_names      names;     ///< the names that the program gave to streams, threads and memory
    sim_report_log log;       ///< the reports about the program
    sim_unchecked  unchecked; ///< counts of what the checks left out, by reason

private:
    static sim_event_of::kind kind_of(sim_access access) noexcept {
        switch (access) {
        case sim_access::read: return sim_event_of::kind::read;
        case sim_access::write: return sim_event_of::kind::write;
        case sim_access::atomic: break;
        }
        return sim_event_of::kind::atomic;
    }
    void track_pageable() {
        if (pageable_.bytes != 0) { return; }
        pageable_.history = {unsatisfiable, {}};
        pageable_.bytes   = unsatisfiable;
    }

    template <class Block>
    bool touch(Block& block, sim_event_of const& step, vector_clock const& clock, sim_range range,
               sim_access access, bool fully = false) {
        return touch(block, block.history, step, clock, range, access, fully);
    }
    /// Checks an access to the part of `range` in `block`, and adds the access to `history`. If
    /// `fully` is true, waits inside resources count as order. Returns false if the access may be
    /// a mistake.
    template <class Block>
    bool touch(Block const& block, interval_map<sim_history>& history, sim_event_of const& step,
               vector_clock const& clock, sim_range range, sim_access access, bool fully) {
        if (history.size() == 0) { return true; }
        std::size_t const         first = range.begin() - block.begin;
        std::size_t const         last  = std::min(range.end(), block.end()) - block.begin;
        vector_clock const* const all[] = {&clock};
        sim_conflicts             found{step, all, fully};
        found.separate(late_, since);
        bool const replaces = access == sim_access::write && !late_.is_open();
        bool       reported = false;
        history.change(first, last, [&](std::size_t from, std::size_t to, sim_history& h) {
            if (on_.races) { found.collect(block.begin + from, block.begin + to, h); }
            bool const fresh = is_unwritten(block, history, h);
            if (on_.uninitialised && access != sim_access::write && fresh && !reported &&
                found.found().empty()) {
                reported = true;
                report({sim_mistake::uninitialised_read, step, h.write, block.begin + from,
                        to - from, "no write was declared before it", block.description()});
            }
            if (!replaces) { h.note(step, late_); }
        });
        if (replaces) { history.assign(first, last, {step, {}}); }
        if (on_.races && history.compact_is_due()) {
            forget_past(history, is_past, on_.uninitialised);
        }
        report_all(found, block);
        return !reported && found.found().empty();
    }

    /// Checks and records an access to `block`, which a resource, such as a pool, divides into the
    /// blocks `parts`. Returns false if it finds a possible mistake.
    template <class Block>
    bool touch_parts(Block& block, sim_parts& parts, sim_event_of const& step,
                     vector_clock const& clock, sim_range range, sim_access access) {
        sim_parts::range const chunk = parts.chunk_at(range.begin());
        if (!chunk.found) {
            std::uintptr_t const end = std::min(range.end(), chunk.end);
            if constexpr (requires(Block& b) { b.history; }) {
                if (end > block.end()) { return outside(step, range, block.description()); }
                sim_range const own{range.data, end - range.begin()};
                if (!touch(block, step, clock, own, access)) { return false; }
            }
            sim_range const rest{reinterpret_cast<void const*>(end), range.end() - end};
            return rest.bytes == 0 || touch_parts(block, parts, step, clock, rest, access);
        }
        sim_inner_block* const part = parts.at(range.begin());
        bool const gone = part != nullptr && (part->freed || (part->graph_freed && !step.graph));
        if (part != nullptr && !gone) {
            if (part->parts != nullptr) {
                return touch_parts(*part, *part->parts, step, clock, range, access);
            }
            if (range.end() <= part->end() || part->graph || unchecked.resource_events != 0) {
                return touch(*part, step, clock, range, access);
            }
        }
        if (unchecked.resource_events != 0) { return true; }
        if (gone) {
            if (!on_.bounds) { return true; }
            report({sim_mistake::use_after_free, step, part->released, range.begin(), range.bytes,
                    sim_advice_if_freed, part->description()});
            return false;
        }
        sim_inner_block* const before = parts.before(range.begin());
        return outside(step, range,
                       before != nullptr && before->last > chunk.begin ? before->description()
                                                                       : sim_block_of{});
    }
    /// If bounds are checked, reports that `step` accesses memory outside of every block, and
    /// returns false. Otherwise returns true. `block`: the block that the report names, or empty.
    bool outside(sim_event_of const& step, sim_range range, sim_block_of const& block) {
        if (!on_.bounds) { return true; }
        report({sim_mistake::out_of_bounds, step, {}, range.begin(), range.bytes, "", block});
        return false;
    }

    /// Checks and records an access to reserved virtual addresses. Compares it also with accesses
    /// to the same physical memory through other addresses.
    void touch(sim_reservation& pages, sim_event_of const& step, vector_clock const& clock,
               sim_range range, sim_access access, sim_copy_kind copy) {
        bool const divided = pages.parts != nullptr && pages.parts->chunk_at(range.begin()).found;
        bool       well = !divided || touch_parts(pages, *pages.parts, step, clock, range, access);
        for (std::uintptr_t at = range.begin(); well && at < range.end();) {
            sim_block* const page = pages.mapping(at);
            if (page == nullptr || !page->granted) {
                if (on_.bounds) {
                    report({sim_mistake::unmapped_access, step,
                            page != nullptr ? page->allocated : sim_event_of{}, at,
                            range.end() - at,
                            page != nullptr ? "no device has access to the mapping"
                                            : "no memory is mapped at this address"});
                }
                return;
            }
            sim_range const rest{reinterpret_cast<void const*>(at), range.end() - at};
            well = reaches(step, *page, range, copy, false, pages.parts.get()) &&
                   touch(*page, step, clock, rest, access, divided) &&
                   touch(*page, memory_.physical.at(page->physical).history, step, clock, rest,
                         access, divided);
            at = page->end();
        }
    }

    /// Returns the live block that contains the start of `range`. Returns `pageable_` for pageable
    /// memory, and null if the access is wrong or cannot be checked.
    sim_block* place(sim_event_of const& step, sim_range range, sim_copy_kind how, bool peers) {
        sim_space* const space = memory_.space_of(range.begin());
        if (space == nullptr) {
            bool const copy    = how != sim_copy_kind::none;
            bool const by_host = step.host || step.host_function;
            bool const later   = step.host_function || (copy && step.graph);
            if ((page_tables_ || later) && on_.races) { track_pageable(); }
            if (page_tables_ || (pageable_.bytes != 0 && (by_host || copy))) { return &pageable_; }
            if (by_host || copy) {
                ++unchecked.pageable;
            } else if (on_.residency) {
                report({sim_mistake::pageable_access,
                        step,
                        {},
                        range.begin(),
                        range.bytes,
                        "devices can access pinned, managed and device memory only"});
            }
            return nullptr;
        }
        sim_block* const block = space->before(range.begin());
        // If a pool or other resource divides the block, `touch_parts` checks the end of `range`.
        bool const within = block != nullptr && !block->freed && range.begin() < block->end() &&
                            (block->parts != nullptr || range.end() <= block->end());
        if (!within) {
            if (on_.bounds) {
                bool const freed = block != nullptr && block->freed && range.begin() < block->end();
                sim_report r{sim_mistake::out_of_bounds, step, {}, range.begin(), range.bytes, ""};
                if (block != nullptr && (freed || !block->freed)) {
                    // nvcc 13.0 crashes if the initializer of `r` contains this member.
                    r.block = block->description();
                }
                if (freed) {
                    r.kind    = sim_mistake::use_after_free;
                    r.first   = block->released;
                    r.missing = sim_advice_if_freed;
                }
                report(std::move(r));
            }
            return nullptr;
        }
        return reaches(step, *block, range, how, peers, block->parts.get()) ? block : nullptr;
    }

    /// If the device or host of `step` cannot access `block`, reports the access and returns false.
    /// Always returns true if residency is not checked. Parameters: as of `sim_reach`.
    bool reaches(sim_event_of const& step, sim_block const& block, sim_range range,
                 sim_copy_kind copy, bool peers, sim_parts* parts) {
        if (!on_.residency) { return true; }
        auto mistake = sim_reach(step, block, range, copy, peers, parts);
        if (mistake) { report(std::move(*mistake)); }
        return !mistake;
    }

    void report_pair(sim_event_of const& second, sim_event_of const& first, std::uintptr_t at,
                     std::size_t bytes, sim_block_of const& block) {
        sim_mistake kind = sim_mistake::race;
        if (first.what == sim_event_of::kind::allocation) { kind = sim_mistake::use_before_ready; }
        if (second.what == sim_event_of::kind::release) {
            kind = sim_mistake::free_before_last_use;
        }
        if (first.number < since || log.repeated(kind, second, first)) { return; }
        sim_report r{kind, second, first, at, bytes, {}, block};
        names.complete(r);
        r.missing = sim_advice(r, calling_part);
        log.add(std::move(r));
    }

    sim_memory& memory_;
    /// A block that stands for all pageable memory. Its size is 0 while accesses to pageable memory
    /// are not recorded.
    sim_block      pageable_;
    sim_checks     on_;
    bool           page_tables_;
    sim_actors     actors_;
    sim_late_order late_;
};

} // namespace detail
} // namespace vram
