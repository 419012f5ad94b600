// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_queue` adds operations to streams, and orders streams by events.

#include <vram/sim/machine/name_part.hpp>
#include <vram/sim/machine/sim_call.hpp> // sim_call, sim_machine
#include <vram/sim/machine/sim_late_waits.hpp>
#include <vram/sim/machine/sim_submission.hpp>

#include <algorithm> // max, none_of
#include <cstddef>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// Adds the operations of one call to streams: kernels, copies, records, waits and graphs.
///
/// Failure   Members throw `sim_error` or `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_queue {
public:
    explicit sim_queue(sim_call& call) : call_{call}, m_{call.machine} {}

    /// The first step of every action on the stream `s`. Orders `s` after the earlier work of the
    /// calling thread. Also orders `s` by the rules of the legacy default stream.
    void begin_action(sim_stream_state& s) {
        m_.acquire(s, *call_.host, call_.where);
        order_with_legacy(s);
        ++s.work;
        m_.changed(s);
    }

    /// Orders later work of stream `s` after all present work of `other`, as an event would.
    void join(sim_stream_state& s, sim_stream_state& other) {
        begin_action(other);
        begin_action(s);
        follow_stream(s, other);
        s.count = s.vclock.advance(s.slot);
    }

    /// Adds `task` to the end of the stream `s` and returns the new operation. During a capture,
    /// adds a node to the graph instead and returns null. If the owner of `s` (a `sim_stream`) was
    /// destroyed, `also_ended` must be true. Otherwise, throws `sim_error{invalid_handle}`.
    sim_operation* enqueue(sim_stream_state& s, sim_task task, bool also_ended = false) {
        if (s.ended && !also_ended) { throw sim_error{sim_status::invalid_handle, call_.where}; }
        admit_memory(task);
        if (s.capture) {
            s.capture->nodes.push_back({std::move(task), s.capture_deps});
            s.capture_deps.assign(1, s.capture->nodes.size() - 1);
            return nullptr;
        }
        begin_action(s);
        name_part(task);
        sim_operation& op = make(std::move(task), s);
        sim_submission given{m_.schedule, op};
        depend(op, s);
        s.tail  = {&op, op.number};
        s.count = s.vclock.advance(s.slot);
        inspect(op, {s.device, s.slot, s.count}, s.vclock, s);
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
        begin_action(s);
        if (e.timed || !s.waits.empty()) {
            sim_operation& op = m_.schedule.make({.name = "event", .device = s.device},
                                                 call_.host->clock, s.id.load());
            if (e.timed) {
                op.task.completed = [&e, &op] {
                    if (e.place.operation == &op && e.place.number == op.number) {
                        e.when = op.end;
                    }
                };
            }
            sim_submission given{m_.schedule, op};
            depend(op, s);
            s.tail      = {&op, op.number};
            e.place     = s.tail;
            given.whole = true;
        } else {
            e.place = s.tail;
        }
        s.count    = s.vclock.advance(s.slot);
        e.vclock   = s.vclock;
        e.slot     = s.slot;
        e.count    = s.count;
        e.recorded = true;
        e.capture.reset();
        call_.recorded(e);
        ++m_.schedule.figures(s.device).events_recorded;
    }

    void wait(sim_stream_state& s, sim_event_state& e) {
        if (s.ended) { throw sim_error{sim_status::invalid_handle, call_.where}; }
        // A wait for an event that was never recorded has no effect.
        if (!e.recorded) { return; }
        if (e.capture && e.capture->ended) {
            throw sim_error{sim_status::captured_event, call_.where};
        }
        if (e.capture || s.capture) { return wait_captured(s, e); }
        call_.expect_ordered(e, "wait");
        begin_action(s);
        wait_for(s, e.place);
        if (m_.checker.on().races && !sim_machine::follows(s.vclock, e.slot, e.count)) {
            sim_machine::take_over(s.vclock, e.vclock);
            s.count = s.vclock.advance(s.slot);
        }
        ++m_.schedule.figures(s.device).stream_waits;
    }

private:
    friend class sim_graph_launch;

    /// Throws `sim_error{device_lost}` if `task` is work of a device that uses memory of a lost
    /// device.
    void admit_memory(sim_task const& task) const {
        bool const none = std::ranges::none_of(m_.devices, &sim_device_state::lost);
        if (none || task.host_function) { return; }
        for (sim_task::use const& each : task.uses) {
            int            device = 0;
            sim_kind const kind   = m_.memory.kind_of(each.range.begin(), device);
            call_.admit_memory(kind, device);
        }
    }
    /// Creates the operation of `task` on stream `s`. A fault that was injected into the call makes
    /// the operation slow, or makes it fail.
    sim_operation& make(sim_task task, sim_stream_state const& s) {
        if (call_.fault) {
            task.duration += call_.fault->slow;
            task.fails = call_.fault->later;
        }
        sim_operation& op = m_.schedule.make(std::move(task), call_.host->clock, s.id.load());
        if (op.task.fails) {
            op.task.completed = [&d = m_.at(s.device), fault = *call_.fault] {
                d.pending = fault.status;
                d.sticky  = fault.sticky;
            };
        }
        return op;
    }

    /// Makes the next operation of `s` wait for the operation `m`, unless that is complete.
    static void wait_for(sim_stream_state& s, sim_moment m) {
        if (!m.pending()) { return; }
        if (s.waits.size() >= s.sweep_at) {
            std::erase_if(s.waits, [](sim_moment const& w) { return !w.pending(); });
            s.sweep_at = std::max<std::size_t>(16, 2 * s.waits.size());
        }
        s.waits.push_back(m);
    }

    /// Makes the next operation of the stream `s` happen after all work of the stream `other`.
    void follow_stream(sim_stream_state& s, sim_stream_state const& other) {
        wait_for(s, other.tail);
        for (sim_moment const& m : other.waits) { wait_for(s, m); }
        if (m_.checker.on().races) { sim_machine::take_over(s.vclock, other.vclock); }
    }

    /// Orders the stream `s` by the rules of the legacy default stream. The legacy default stream
    /// waits for the blocking streams of its device, and blocking streams wait for it.
    void order_with_legacy(sim_stream_state& s) {
        sim_device_state& d = m_.at(s.device);
        if (s.legacy) {
            call_.refuse_implicit(s);
            sim_machine::include_allocations(s);
            for (sim_stream_state* const other : d.unfollowed) { follow_stream(s, *other); }
            for (sim_moment const& m : d.blocking_orphans) { wait_for(s, m); }
            bool const races = m_.checker.on().races;
            if (races) { sim_machine::take_over(s.vclock, d.blocking_orphans_vclock); }
            // The legacy default stream now follows the streams in these lists, so the lists are
            // emptied. A call of a resource keeps the lists. The program must not rely on the order
            // that such a call adds, so its own next call adds the order again.
            if (!races || !in_resource_call()) {
                d.unfollowed.clear();
                d.blocking_orphans.clear();
                d.blocking_orphans_vclock = {};
            }
        } else if (s.blocking && d.legacy->work != s.legacy_seen) {
            follow_stream(s, *d.legacy);
            // Records that `s` now follows the legacy default stream. A call of a resource does not
            // record it. The program must not rely on the order that such a call adds, so its own
            // next call adds the order again.
            if (!in_resource_call()) { s.legacy_seen = d.legacy->work; }
        }
    }

    /// Makes `op`, the next operation of the stream `s`, start after all earlier work of `s` and
    /// after the events that `s` waits for.
    void depend(sim_operation& op, sim_stream_state& s) {
        m_.schedule.after(op, s.tail);
        for (sim_moment const& m : s.waits) { m_.schedule.after(op, m); }
        s.waits.clear();
    }

    /// The device of an operation, and its place in vector clocks: the index `slot` of its stream
    /// or graph branch, and its `count` there.
    struct place {
        int           device;
        std::size_t   slot;
        std::uint64_t count;
        bool          graph = false; ///< true if a launch of a graph queues the operation
    };

    [[nodiscard]] static sim_event_of event_of(sim_operation const& op, place const& at) noexcept {
        return {.name          = op.task.name,
                .host_function = op.task.host_function,
                .graph         = at.graph,
                .part          = op.task.part,
                .number        = op.number,
                .actor         = op.stream,
                .device        = at.device,
                .item          = op.task.item,
                .time          = op.enqueued,
                .where         = op.task.where,
                .slot          = at.slot,
                .count         = at.count};
    }

    /// Passes the declared accesses of `op` to the checker.
    void inspect(sim_operation& op, place const& at, vector_clock& vclock,
                 sim_stream_state& s) try {
        bool const mine = op.task.part == sim_part::program;
        if (op.task.uses.empty() && mine) { count_unchecked(op.task); }
        // True if the operation may access registered and pageable memory as one range.
        bool const both = op.task.host_function || m_.options.host_page_tables;
        for (sim_task::use const& use : op.task.uses) {
            bool peers = true;
            int  owner = at.device;
            if (m_.memory.kind_of(use.range.begin(), owner) == sim_kind::device) {
                peers =
                    owner == at.device || m_.at(at.device).peers[static_cast<std::size_t>(owner)];
            }
            for (sim_range rest = use.range; rest.bytes != 0;) {
                sim_range const part = both ? m_.memory.take_alike(rest) : std::exchange(rest, {});
                m_.checker.touch(event_of(op, at), vclock, part, use.access, op.task.copy, peers);
            }
        }
        if (op.task.word && !op.task.fails) { sim_late_waits{m_}.use_word(op, at.slot, vclock, s); }
        if (op.task.meeting) { sim_late_waits{m_}.join_meeting(op, vclock, s); }
        if (op.task.host_function && m_.checker.on().races) {
            op.task.effect = [effect = std::move(op.task.effect), vclock] {
                detail::effect_vclock = &vclock;
                struct ending { // resets `effect_vclock`, also if the host function throws
                    ~ending() { detail::effect_vclock = nullptr; }
                } const at_end;
                effect();
            };
        }
    } catch (std::bad_alloc const&) { // a part is recorded, but the operation will not run
        m_.checker.lose_order();
        throw;
    }

    /// Counts a kernel or host function that declares no memory, so that it is not checked.
    void count_unchecked(sim_task const& task) noexcept {
        if (task.host_function) {
            ++m_.checker.unchecked.host_functions;
        } else if (task.engine == sim_engine::compute && task.copy == sim_copy_kind::none) {
            ++m_.checker.unchecked.kernels;
        }
    }

    void wait_captured(sim_stream_state& s, sim_event_state const& e) {
        if (s.legacy) {
            // CUDA can capture no work of the legacy default stream.
            call_.refuse_implicit(s);
            e.capture->broken = true;
            throw sim_error{sim_status::stream_capturing, call_.where};
        }
        if (!e.capture || (s.capture && s.capture != e.capture)) {
            if (s.capture) { s.capture->broken = true; }
            throw sim_error{sim_status::capture_isolation, call_.where};
        }
        if (!s.capture) {
            s.capture = e.capture;
            ++m_.at(s.device).captured;
            s.capture_deps.clear();
        }
        s.capture_deps.insert(s.capture_deps.end(), e.nodes.begin(), e.nodes.end());
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
