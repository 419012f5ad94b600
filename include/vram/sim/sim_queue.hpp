// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_queue` puts work on streams, and orders streams by events.

#include <vram/sim/sim_call.hpp> // sim_call, sim_machine

#include <cstddef>  // size_t
#include <iterator> // back_inserter
#include <utility>  // move

namespace vram {

/// What streams can be given, under one call.
///
/// Failure   `sim_error`; `std::bad_alloc`
/// Threads   the call's
/// Cost      `enqueue` and timed events: one operation; `record`: a copy of what the stream knows
class sim_queue {
public:
    explicit sim_queue(sim_call& call) : call_{call}, m_{call.machine} {}

    /// Puts `task` at the end of stream `s`. Null while the stream is captured: it is written down.
    sim_operation* enqueue(sim_stream_state& s, sim_task task) {
        if (s.capture) {
            s.capture->nodes.push_back({std::move(task), s.capture_deps});
            s.capture_deps.assign(1, s.capture->nodes.size() - 1);
            return nullptr;
        }
        m_.follow(s, *call_.host, call_.where);
        if (call_.fault) {
            task.duration += call_.fault->slow;
            task.fails = call_.fault->later;
        }
        sim_operation& op = m_.schedule.make(std::move(task), call_.host->clock, s.id.load());
        if (op.task.fails) { fail_later(op, s.device, *call_.fault); }
        submission given{m_.schedule, op};
        depend(op, s);
        s.tail = {&op, op.number};
        ++s.work;
        s.count = s.knows.advance(s.slot);
        for (sim_task::use const& use : op.task.uses) { inspect(op, s, use); }
        given.whole = true;
        m_.turns.progress.notify_all();
        return &op;
    }

    void record(sim_event_state& e, sim_stream_state& s) {
        if (e.device != s.device) { throw sim_error{sim_status::invalid_handle, call_.where}; }
        if (s.capture) {
            e.capture  = s.capture;
            e.nodes    = s.capture_deps;
            e.recorded = true;
            return;
        }
        m_.follow(s, *call_.host, call_.where);
        if (e.timed || has_loose_ends(s)) {
            sim_operation& op = m_.schedule.make({.name = "event", .device = s.device},
                                                 call_.host->clock, s.id.load());
            if (e.timed) {
                op.task.settle = [&e, &op] {
                    if (e.place.operation == &op && e.place.number == op.number) {
                        e.when = op.end;
                    }
                };
            }
            submission given{m_.schedule, op};
            depend(op, s);
            s.tail = {&op, op.number};
            ++s.work;
            e.place     = s.tail;
            given.whole = true;
        } else {
            e.place = s.tail;
        }
        s.count    = s.knows.advance(s.slot);
        e.knows    = s.knows;
        e.slot     = s.slot;
        e.count    = s.count;
        e.recorded = true;
        e.capture.reset();
        ++m_.schedule.figures(s.device).events_recorded;
    }

    void wait(sim_stream_state& s, sim_event_state const& e) {
        if (!e.recorded) { return; } // a wait before any record is no wait
        if (e.capture || s.capture) { return wait_captured(s, e); }
        m_.follow(s, *call_.host, call_.where);
        if (s.legacy) { ++s.work; } // it holds what blocking streams are given next, too
        if (e.place.pending()) {
            if (s.waits.size() >= 16) {
                std::erase_if(s.waits, [](sim_moment const& m) { return !m.pending(); });
            }
            s.waits.push_back(e.place);
        }
        if (m_.checker.on().races && !s.knows.knows(e.slot, e.count)) {
            s.knows.join(e.knows);
            s.count = s.knows.advance(s.slot);
        }
        ++m_.schedule.figures(s.device).stream_waits;
    }

private:
    /// Submits an operation at the end of the scope; one that could not be put together (no memory)
    /// has no effect, but those that wait for it go on.
    struct submission {
        ~submission() {
            if (!whole) { op.task = {.device = op.task.device}; }
            schedule.submit(op);
        }
        sim_schedule&  schedule;
        sim_operation& op;
        bool           whole = false;
    };

    /// Whether the stream's next place is not simply that of its last operation.
    bool has_loose_ends(sim_stream_state& s) {
        if (!s.waits.empty() || s.legacy) { return true; }
        return s.blocking && m_.at(s.device).legacy->work != s.legacy_seen;
    }

    /// Everything that must end before `op`, the next one of `s`.
    void depend(sim_operation& op, sim_stream_state& s) {
        m_.schedule.after(op, s.tail);
        for (sim_moment const& m : s.waits) { m_.schedule.after(op, m); }
        s.waits.clear();
        sim_device_state& d = m_.at(s.device);
        if (s.legacy) {
            for (sim_stream_state* const other : d.streams) {
                if (other == &s || !other->blocking) { continue; }
                m_.schedule.after(op, other->tail);
                for (sim_moment const& m : other->waits) { m_.schedule.after(op, m); }
                if (m_.checker.on().races) { s.knows.join(other->knows); }
            }
            for (sim_moment const& m : d.blocking_orphans) { m_.schedule.after(op, m); }
            if (m_.checker.on().races) { s.knows.join(d.blocking_orphans_know); }
        } else if (s.blocking && d.legacy->work != s.legacy_seen) {
            s.legacy_seen = d.legacy->work;
            m_.schedule.after(op, d.legacy->tail);
            for (sim_moment const& m : d.legacy->waits) { m_.schedule.after(op, m); }
            if (m_.checker.on().races) { s.knows.join(d.legacy->knows); }
        }
    }

    void inspect(sim_operation const& op, sim_stream_state const& s, sim_task::use const& use) {
        sim_event_of const who{.name   = op.task.name,
                               .number = op.number,
                               .actor  = op.stream,
                               .device = s.device,
                               .time   = op.enqueued,
                               .where  = op.task.where,
                               .slot   = s.slot,
                               .count  = s.count};
        bool               peers = true;
        int                owner = s.device;
        if (m_.memory.kind_of(use.range.begin(), owner) == sim_kind::device) {
            peers = owner == s.device || m_.at(s.device).peers[static_cast<std::size_t>(owner)];
        }
        m_.checker.touch(who, s.knows, use.range, use.access, op.task.copy, peers);
    }

    void fail_later(sim_operation& op, int device, sim_fault const& fault) {
        op.task.settle = [&d = m_.at(device), fault] {
            d.pending = fault.status;
            d.sticky  = fault.sticky;
        };
    }

    void wait_captured(sim_stream_state& s, sim_event_state const& e) {
        if (!e.capture || (s.capture && s.capture != e.capture)) {
            if (s.capture) { s.capture->broken = true; }
            throw sim_error{sim_status::capture_isolation, call_.where};
        }
        if (!s.capture) {
            s.capture = e.capture; // the stream joins the capture
            s.capture_deps.clear();
        }
        s.capture_deps.insert(s.capture_deps.end(), e.nodes.begin(), e.nodes.end());
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace vram
