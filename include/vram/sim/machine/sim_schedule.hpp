// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_schedule` runs queued operations in the order of simulated time.

#include <vram/sim/machine/sim_operation.hpp> // sim_operation, sim_task, sim_moment
#include <vram/sim/machine/sim_shared_link.hpp>
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_figures.hpp>
#include <vram/sim/sim_options.hpp>

#include <algorithm> // max
#include <cstddef>
#include <cstdint>
#include <deque>         // deque
#include <exception>     // exception_ptr, current_exception
#include <functional>    // greater, function
#include <limits>        // numeric_limits
#include <mutex>         // unique_lock
#include <queue>         // priority_queue
#include <string>        // string, to_string
#include <tuple>         // tie
#include <unordered_map> // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// True while this thread runs the effect of an operation (such as a kernel's body), which must not
/// call the simulated device.
inline thread_local bool inside_effect = false;
/// The operation of which this thread runs the effect (such as a kernel's body), or null.
inline thread_local sim_operation const* running_operation = nullptr;
/// Vector clock of the host function (`sim_call_host`) that this thread runs, or null.
inline thread_local vector_clock const* effect_vclock = nullptr;

/// A discrete-event simulator of the devices. An operation is ready if all operations that it waits
/// for have ended, and starts when its engine is free. Operations on one link share its speed. An
/// operation takes effect when it ends.
///
/// Threads   The caller holds the machine's lock, which `step` releases while it runs an effect.
class sim_schedule {
public:
    /// Called with each operation that ends, before the operations that wait for it become ready.
    std::function<void(sim_operation&)> on_end;
    /// Called before the end of an operation on a word in memory (a write, or a wait for a value).
    /// Returns true if the operation may end now.
    std::function<bool(sim_operation const&)> may_end;

    explicit sim_schedule(sim_options const& options)
        : figures_(static_cast<std::size_t>(options.devices)),
          failures_(static_cast<std::size_t>(options.devices)),
          engines_(static_cast<std::size_t>(options.devices)),
          start_latency_{options.start_latency},
          trace_on_{options.trace} {
        for (auto& e : engines_) {
            e.lanes[0].slots = options.compute_slots;
            e.lanes[1].slots = options.to_device_slots;
            e.lanes[2].slots = options.to_host_slots;
            e.lanes[3].slots = options.peer_slots;
            e.lanes[4].slots = 1;
            for (lane& l : e.lanes) { l.shares = l.slots > 1; }
            if (options.devices_per_root > 1) { e.lanes[1].shares = e.lanes[2].shares = true; }
        }
    }

    /// Creates an operation for `task`, queued at the time `when` on the stream with the id
    /// `stream`. The caller adds preceding operations with `after`, then calls `submit`.
    sim_operation& make(sim_task task, sim_time when, std::uint64_t stream) {
        sim_operation* op = nullptr;
        if (spare_.empty()) {
            make_room();
            op = &operations_.emplace_back();
        } else {
            op = spare_.back();
            spare_.pop_back();
        }
        op->task     = std::move(task);
        op->number   = ++count_;
        op->stream   = stream;
        op->enqueued = op->ready = when;
        if (op->task.engine != sim_engine::none) { op->ready += start_latency_; }
        op->blockers = 0;
        return *op;
    }

    /// Makes the operation `op` wait for `before`, unless `before` has ended.
    void after(sim_operation& op, sim_moment before) {
        if (!before.pending() || before.operation == &op) { return; }
        before.operation->followers.push_back(&op);
        ++op.blockers;
    }

    /// Permits `op` to run as soon as the operations that it waits for have ended.
    void submit(sim_operation& op) {
        if (op.blockers == 0) { push(op, op.ready, event::start); }
    }

    /// Returns the time of the next event of an operation, or the largest time if there is none.
    [[nodiscard]] sim_time next() const noexcept {
        return agenda_.empty() ? sim_time::max() : agenda_.top().time;
    }
    /// Returns the present simulated time: that of the last event that `step` has run.
    [[nodiscard]] sim_time now() const noexcept { return now_; }
    /// Returns true while the effect of an operation runs, with the lock released. No other step
    /// may run then.
    [[nodiscard]] bool executing() const noexcept { return executing_; }

    /// Runs the next event of the simulation. There must be one, and no effect may be running.
    void step(std::unique_lock<std::mutex>& lock) {
        item const next = agenda_.top();
        agenda_.pop();
        drop_moved();
        now_ = std::max(now_, next.time);
        if (next.what == event::end) {
            finish(*next.operation, lock);
        } else if (next.what == event::join) {
            join(*next.operation);
        } else if (next.operation->task.engine == sim_engine::none) {
            if (next.operation->task.word && !may_end(*next.operation)) {
                stuck_.push_back(next.operation);
                return;
            }
            sim_operation& op = *next.operation;
            op.start          = next.time;
            op.end            = next.time + op.task.duration;
            op.task.duration != sim_time{} ? push(op, op.end, event::end) : finish(op, lock);
        } else {
            begin_or_queue(*next.operation);
        }
    }

    /// Checks each operation that waits for a value of a word in memory. If the word has the value
    /// now, the operation continues.
    void retry() {
        std::erase_if(stuck_, [&](sim_operation* const op) {
            if (!op->task.word || !may_end(*op)) { return false; }
            push(*op, now_, event::start);
            return true;
        });
    }
    /// Returns true if an operation waits for a word, or for the other ranks of a collective.
    [[nodiscard]] bool stuck() const noexcept { return !stuck_.empty(); }
    /// Ends the waits of all operations that make `stuck` return true, without their condition.
    void release_stuck() {
        for (sim_operation* const op : std::exchange(stuck_, {})) {
            if (op->task.word) {
                op->task.word.reset();
                push(*op, now_, event::start);
            } else if (!op->task.meeting->arrived.empty()) {
                op->task.meeting->given_up = true;
                end_meeting(*op->task.meeting);
            }
        }
    }
    /// Returns a text about the operations that make `stuck` return true.
    [[nodiscard]] std::string stuck_text() const {
        std::string text;
        for (sim_operation const* const op : stuck_) {
            text += (text.empty() ? "`" : "; `") + std::string{op->task.name} + "` #" +
                    std::to_string(op->number) + " on stream " + std::to_string(op->stream) +
                    " of device " + std::to_string(op->task.device) + " (called at " +
                    op->task.where.file_name() + ":" + std::to_string(op->task.where.line()) + ") ";
            if (sim_word_use const* const word = op->task.word.get()) {
                text += "waits until " + std::to_string(word->value) +
                        (word->equal ? "" : " or more") + " is written";
            } else {
                text += "waits for the other ranks of the collective";
            }
        }
        return text;
    }

    /// Returns the first exception of an operation of `device` since the last call, or null.
    [[nodiscard]] std::exception_ptr take_failure(int device) noexcept {
        return std::exchange(failures_[static_cast<std::size_t>(device)], {});
    }

    [[nodiscard]] sim_figures& figures(int device) noexcept {
        return figures_[static_cast<std::size_t>(device)];
    }
    [[nodiscard]] std::vector<sim_trace> const& trace() const noexcept { return trace_; }
    [[nodiscard]] std::uint64_t                 count() const noexcept { return count_; }
    std::uint64_t                               next_number() noexcept { return ++count_; }

private:
    /// The events in the life of an operation: its end, the beginning of its use of a link
    /// (`join`), its start. Those at equal times run in this order.
    enum class event : unsigned char { end, join, start };

    struct item {
        sim_time       time;
        event          what;
        std::uint64_t  number;
        sim_operation* operation;
        /// Value of `operation->moves` when this entry was queued. If `operation->moves` has
        /// another value now, the entry is outdated and is ignored.
        unsigned moves;

        friend bool operator>(item const& a, item const& b) noexcept {
            return std::tie(a.time, a.what, a.number) > std::tie(b.time, b.what, b.number);
        }
        [[nodiscard]] bool over() const noexcept {
            return operation->number != number || operation->moves != moves;
        }
    };
    struct agenda : std::priority_queue<item, std::vector<item>, std::greater<>> {
        void reserve(std::size_t n) { c.reserve(n); }
    };

    struct lane {
        int slots = 1;
        int busy  = 0;
        /// True if operations of this engine that run at the same time share the speed of a link.
        bool shares = false;
        /// Ready operations that wait until the engine is free, the earliest first.
        agenda queue = {};
    };
    using link_map = std::unordered_map<std::size_t, sim_shared_link>;
    struct engines {
        lane     lanes[sim_engines];
        unsigned set = 0; ///< the engines that are busy now, one bit for each
        sim_time since{};
    };

    /// If there is no room for another operation, reserves memory for twice as many.
    void make_room() {
        if (operations_.size() < room_) { return; }
        std::size_t const more = room_ == 0 ? 64 : 2 * room_;
        spare_.reserve(more);
        agenda_.reserve(more);
        for (auto& e : engines_) {
            for (auto& l : e.lanes) { l.queue.reserve(more); }
        }
        room_ = more;
    }

    void push(sim_operation& op, sim_time time, event what) {
        agenda_.push({time, what, op.number, &op, op.moves});
    }

    lane& lane_of(sim_operation const& op) {
        return engines_[static_cast<std::size_t>(op.task.device)]
            .lanes[static_cast<std::size_t>(op.task.engine)];
    }

    void begin_or_queue(sim_operation& op) {
        lane& l = lane_of(op);
        if (l.busy == l.slots) {
            l.queue.push({op.ready, event::start, op.number, &op, op.moves});
        } else {
            begin(op, l);
        }
    }

    void begin(sim_operation& op, lane& l) {
        op.start = now_;
        account(op, true, l);
        if (op.task.meeting) { return meet(op); }
        if (!l.shares || op.task.transfer == sim_time{}) {
            op.end = now_ + op.task.duration;
            push(op, op.end, event::end);
        } else if (op.task.duration == op.task.transfer) {
            join(op);
        } else {
            push(op, now_ + op.task.duration - op.task.transfer, event::join);
        }
    }

    /// Called when the latency of `op` has passed: the operation begins to use its link.
    void join(sim_operation& op) {
        sim_shared_link& link = links_[op.task.link];
        link.add(op, now_);
        op.shares = true;
        announce(link);
    }
    /// If operations use `link`, queues an event: the end of the operation that ends first. This
    /// event replaces the end that was queued for `link` before.
    void announce(sim_shared_link& link) {
        if (link.announced != nullptr) { ++link.announced->moves; }
        link.announced = link.first();
        if (link.announced != nullptr) {
            link.announced->end = link.first_end();
            push(*link.announced, link.announced->end, event::end);
        }
        drop_moved();
    }
    /// Removes outdated events (`item::over`) from the front of the event queue `agenda_`.
    void drop_moved() {
        while (!agenda_.empty() && agenda_.top().over()) { agenda_.pop(); }
    }

    /// Called when one rank's part `op` of a collective begins. When the parts of all ranks have
    /// begun, plans their common end.
    void meet(sim_operation& op) {
        sim_meeting& m = *op.task.meeting;
        m.duration     = std::max(m.duration, op.task.duration);
        m.arrived.push_back(&op);
        stuck_.push_back(&op);
        if (m.arrived.size() == m.ranks || m.given_up) { end_meeting(m); }
    }
    void end_meeting(sim_meeting& m) {
        for (sim_operation* const each : m.arrived) {
            std::erase(stuck_, each);
            each->end = now_ + m.duration;
            push(*each, each->end, event::end);
        }
        m.arrived.clear();
    }

    void finish(sim_operation& op, std::unique_lock<std::mutex>& lock) {
        if (op.task.effect && !op.task.fails) {
            executing_ = true;
            lock.unlock();
            std::exception_ptr const thrown = run_effect(op);
            lock.lock();
            executing_    = false;
            auto& failure = failures_[static_cast<std::size_t>(op.task.device)];
            if (!failure) { failure = thrown; }
        }
        if (op.task.engine != sim_engine::none) {
            if (std::exchange(op.shares, false)) {
                sim_shared_link& link = links_[op.task.link];
                link.remove(op, now_);
                link.announced = nullptr;
                announce(link);
            }
            lane& l = lane_of(op);
            account(op, false, l);
            if (!l.queue.empty()) {
                sim_operation* const waiting = l.queue.top().operation;
                l.queue.pop();
                begin(*waiting, l);
            }
        }
        if (trace_on_ && op.task.engine != sim_engine::none) {
            trace_.push_back({op.task.name, op.number, op.stream, op.task.device, op.task.engine,
                              op.enqueued, op.start, op.end});
        }
        if (op.task.completed) { op.task.completed(); }
        if (on_end) { on_end(op); }
        for (sim_operation* const f : op.followers) {
            f->ready = std::max(f->ready, op.end);
            if (--f->blockers == 0) { push(*f, f->ready, event::start); }
        }
        op.followers.clear();
        op.task.effect = op.task.completed = nullptr;
        op.number                          = 0;
        spare_.push_back(&op);
    }

    static std::exception_ptr run_effect(sim_operation& op) {
        std::exception_ptr thrown;
        detail::inside_effect     = true;
        detail::running_operation = &op;
        try {
            op.task.effect();
        } catch (...) { thrown = std::current_exception(); }
        detail::inside_effect     = false;
        detail::running_operation = nullptr;
        return thrown;
    }

    /// Called when `op` begins or ends. Adds the time since the previous call to the statistics of
    /// the engines that were busy. Then updates the set of busy engines.
    void account(sim_operation const& op, bool begins, lane& l) {
        engines&     e = engines_[static_cast<std::size_t>(op.task.device)];
        sim_figures& f = figures_[static_cast<std::size_t>(op.task.device)];
        auto const   i = static_cast<std::size_t>(op.task.engine);
        f.together[e.set] += now_ - e.since;
        e.since = now_;
        l.busy += begins ? 1 : -1;
        e.set = l.busy > 0 ? e.set | (1U << i) : e.set & ~(1U << i);
        if (!begins) {
            f.work[i] += now_ - op.start;
            ++f.operations[i];
        }
    }

    std::deque<sim_operation>       operations_;
    std::vector<sim_operation*>     spare_;
    std::vector<sim_operation*>     stuck_;
    agenda                          agenda_;
    std::vector<sim_figures>        figures_;
    std::vector<std::exception_ptr> failures_;
    std::vector<engines>            engines_;
    link_map                        links_;
    std::vector<sim_trace>          trace_;
    sim_time                        now_{};
    std::uint64_t                   count_     = 0;
    std::size_t                     room_      = 0;
    bool                            executing_ = false;
    sim_time                        start_latency_;
    bool                            trace_on_;
};

} // namespace detail
} // namespace vram
