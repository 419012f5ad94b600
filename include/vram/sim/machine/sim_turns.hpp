// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_turns` is a deterministic scheduler of host threads in simulated time.

#include <vram/base/error.hpp> // holds_lock
#include <vram/sim/machine/sim_choices.hpp>
#include <vram/sim/machine/sim_deadlock.hpp>
#include <vram/sim/machine/sim_host.hpp>
#include <vram/sim/machine/sim_schedule.hpp>
#include <vram/sim/sim_error.hpp>

#include <algorithm>          // all_of, any_of, max
#include <chrono>             // nanoseconds
#include <condition_variable> // condition_variable
#include <cstddef>
#include <cstdint>
#include <deque>      // deque
#include <functional> // function
#include <mutex>      // unique_lock
#include <string>     // string
#include <vector>     // vector

namespace vram {
namespace detail {

/// The scheduler of the threads in simulated time (`sim_thread`): lets one of them run at a time,
/// until its next call of the device or wait. Limits how far simulated time may advance. Other host
/// threads are not scheduled.
///
/// Threads   The caller holds the machine's lock, which is released during waits.
class sim_turns {
public:
    using lock = std::unique_lock<std::mutex>;

    /// Called if all scheduled threads wait for each other; the argument lists their waits.
    std::function<void(std::string)> on_deadlock;
    /// Called if no thread can continue, and an operation waits for a word in memory or for the
    /// other ranks of a collective.
    std::function<void()> on_stuck;

    sim_turns(sim_schedule& schedule, sim_options const& options)
        : choices{options.threads, options.seed, options.choices},
          schedule_{schedule},
          order_{options.threads},
          preemptions_{options.preemptions} {}

    sim_host    outside; ///< state that all threads outside simulated time share by default
    sim_choices choices;

    [[nodiscard]] sim_order   order() const noexcept { return order_; }
    [[nodiscard]] std::size_t participants() const noexcept { return hosts_.size(); }

    /// Returns true if the step `count` of the stream or thread `slot` happens before all later
    /// calls of host threads, so that the race check can forget it.
    [[nodiscard]] bool all_include(std::size_t slot, std::uint64_t count,
                                   sim_host_order threads) const noexcept {
        // With `checked`, a new ordinary thread (no `sim_thread`) is not ordered after any step. It
        // may race with each of them, so no step can be forgotten.
        if (threads == sim_host_order::checked) { return false; }
        bool any = outside.vclock.includes(slot, count);
        bool all = true;
        for (sim_host const* const h : hosts_) {
            bool const known = h->vclock.includes(slot, count);
            if (h->child && threads != sim_host_order::ordered) {
                all = all && known;
            } else {
                any = any || known;
            }
        }
        return any && all;
    }

    /// Adds a new thread, with the index `slot` in vector clocks. The thread begins at the
    /// simulated time of the thread `from`, and is ordered after all earlier steps of `from`.
    sim_host& enter(sim_host& from, std::size_t slot) {
        sim_host& h = all_.emplace_back();
        h.number    = ++count_;
        h.clock     = from.clock;
        h.vclock    = from.vclock;
        h.slot      = slot;
        h.advance();
        from.advance();
        hosts_.push_back(&h);
        if (running_ == nullptr && driver_ == 0) { running_ = &h; }
        progress.notify_all();
        return h;
    }

    /// Returns the state of a new thread that is no `sim_thread`. `slot` is its index in vector
    /// clocks (records of the happens-before order).
    sim_host& ordinary(std::size_t slot) {
        sim_host& h = all_.emplace_back();
        h.number    = ++count_;
        h.ordinary  = true;
        h.slot      = slot;
        h.clock     = outside.clock;
        h.advance();
        return h;
    }
    /// Calls `visit` with each thread in simulated time (a `sim_thread`, or a thread that started
    /// one) that has not ended.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (sim_host const* const h : hosts_) { visit(*h); }
    }

    /// Blocks a new thread until the scheduler lets it run for the first time.
    void begin(lock& held, sim_host& self) { await_turn(held, self); }

    /// Removes the thread `self`, which ends or leaves simulated time. Wakes each thread that waits
    /// to join `self` and no other thread.
    void leave(sim_host& self) {
        self.now = sim_host::state::ended;
        std::erase(hosts_, &self);
        for (sim_host* const h : hosts_) {
            if (std::erase(h->threads, &self) != 0 && h->threads.empty()) { wake(*h, self.clock); }
        }
        if (running_ == &self) { running_ = nullptr; }
        progress.notify_all();
    }
    /// Called after `leave`: lets another thread run. If no thread can run now, the first thread
    /// that becomes able to run (see `wake`) will run.
    void hand_off(lock& held) {
        if (running_ != nullptr || driver_ != 0 || hosts_.empty()) { return; }
        std::uint64_t const mine = driver_ = ++drives_;
        sim_host* const     next           = choose(held, nullptr, mine, false);
        if (driver_ != mine) { return; }
        driver_ = 0;
        if (next != nullptr) { hand_to(*next); }
    }

    /// A preemption point, before each call of a scheduled thread: the scheduler may let another
    /// thread run here.
    void preemption_point(lock& held, sim_host& self) {
        ++activity_;
        if (self.now == sim_host::state::away && !detail::holds_lock()) {
            self.started = true;
            come_back(held, self);
        }
        if (!self.started) {
            // At its first call, a thread has already waited in `begin` for its turn.
            self.started = true;
            return;
        }
        // A thread that holds a lock of vram is not preempted: another one might block on that lock
        // in real time, unseen by the scheduler.
        if (detail::holds_lock()) { return; }
        sim_host* const next = choose(held, &self);
        if (next != &self) {
            hand_to(*next);
            await_turn(held, self);
        }
        catch_up(self);
    }

    /// Blocks the thread `self` until `done()` returns true; `done` stores in `self` what it waits
    /// for. Throws `sim_error{deadlock}` if the wait is ended to resolve a deadlock.
    template <class Done>
    void block(lock& held, sim_host& self, Done done) {
        (void)block_for(held, self, forever, done);
    }
    /// Blocks the thread `self` as `block` does, but gives up if no scheduled thread makes a call
    /// for `patience` of real time. Returns the last result of `done()`.
    template <class Done>
    bool block_for(lock& held, sim_host& self, std::chrono::nanoseconds patience, Done done) {
        ++activity_;
        if (self.now == sim_host::state::away) { come_back(held, self); }
        while (!done()) {
            self.now = sim_host::state::blocked;
            if (!dispatch(held, patience) || !await_turn(held, self, patience)) {
                // No thread made a call for `patience`, so the running one probably blocks in real
                // time. `self` runs in its place.
                take_over(self);
                forget(self);
                return done();
            }
            if (self.deadlocked) {
                self.deadlocked = false;
                forget(self);
                throw sim_error{sim_status::deadlock};
            }
        }
        forget(self);
        catch_up(self);
        return true;
    }

    static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

    /// Treats the running thread, if any, as blocked in real time; lets another thread run.
    void step_aside(lock& held) {
        if (running_ != nullptr) { running_->now = sim_host::state::away; }
        running_ = nullptr;
        hand_off(held);
    }
    /// Returns true if a `sim_thread` blocks in real time, which the simulation does not see.
    [[nodiscard]] bool any_away() const noexcept {
        return std::any_of(hosts_.begin(), hosts_.end(),
                           [](sim_host* h) { return h->now == sim_host::state::away; });
    }
    /// Returns the number of calls and waits of `sim_thread`s so far.
    [[nodiscard]] std::uint64_t activity() const noexcept { return activity_; }

    /// Makes the thread `h` able to run, with a simulated time of at least `when`.
    void wake(sim_host& h, sim_time when) {
        h.clock     = std::max(h.clock, when);
        h.now       = sim_host::state::runnable;
        h.operation = {};
        h.threads.clear();
        h.gate = nullptr;
        if (running_ == nullptr && driver_ == 0) { hand_to(h); }
    }
    void wake_waiters(sim_operation const& ended) {
        for (sim_host* const h : hosts_) {
            if (h->operation.operation == &ended && h->operation.pending()) { wake(*h, ended.end); }
        }
    }
    void wake_waiters(void const* gate, sim_time when) {
        for (sim_host* const h : hosts_) {
            if (h->gate == gate && h->now == sim_host::state::blocked) { wake(*h, when); }
        }
        progress.notify_all();
    }

    /// Returns true if an ordinary thread may advance simulated time: neither a scheduled thread
    /// nor the effect of an operation, such as a kernel's body, is running.
    [[nodiscard]] bool outside_may_step() const noexcept {
        return running_ == nullptr && !schedule_.executing();
    }

    /// Notified when simulated time advances or a thread changes state, for the threads that are no
    /// `sim_thread`.
    std::condition_variable progress;

private:
    void forget(sim_host& self) {
        self.operation = {};
        self.threads.clear();
        self.gate           = nullptr;
        self.locked_out     = false;
        self.may_be_outside = false;
    }

    /// Advances the time of the thread `self` to the present simulated time. With
    /// `sim_order::by_time`, does nothing: each thread keeps its own time.
    void catch_up(sim_host& self) {
        if (order_ != sim_order::by_time) { self.clock = std::max(self.clock, schedule_.now()); }
    }

    void hand_to(sim_host& next) {
        running_ = &next;
        next.turn.notify_one();
    }
    void await_turn(lock& held, sim_host& self) {
        self.turn.wait(held, [&] { return running_ == &self; });
    }
    /// Waits until the scheduler lets `self` run. Returns false if no thread calls the device for
    /// `patience` of real time.
    bool await_turn(lock& held, sim_host& self, std::chrono::nanoseconds patience) {
        auto const mine = [&] { return running_ == &self; };
        if (patience == forever) {
            await_turn(held, self);
            return true;
        }
        for (;;) {
            std::uint64_t const seen = activity_;
            if (self.turn.wait_for(held, patience, mine)) { return true; }
            if (activity_ == seen && !schedule_.executing()) { return false; }
        }
    }
    /// Makes `self` run in place of the running thread, which seems to block in real time.
    void take_over(sim_host& self) {
        if (running_ != nullptr && running_ != &self) { running_->now = sim_host::state::away; }
        driver_  = 0;
        running_ = &self;
        self.now = sim_host::state::runnable;
        progress.notify_all();
    }
    /// Makes a thread that blocked in real time able to run again, and waits until it is selected.
    void come_back(lock& held, sim_host& self) {
        self.now   = sim_host::state::runnable;
        self.clock = std::max(self.clock, schedule_.now());
        progress.notify_all();
        if (running_ == nullptr && driver_ == 0) { hand_to(self); }
        await_turn(held, self);
    }

    /// Selects the next thread and lets it run; blocks while none can. Returns false if no thread
    /// calls the device for `patience` of real time, otherwise true.
    bool dispatch(lock& held, std::chrono::nanoseconds patience) {
        running_                 = nullptr;
        std::uint64_t const mine = driver_ = ++drives_;
        sim_host* const     next           = choose(held, nullptr, mine, true, patience);
        // If another selection or `take_over` has replaced this selection, ignores its result.
        if (driver_ != mine) { return true; }
        driver_ = 0;
        if (next == nullptr) { return false; }
        hand_to(*next);
        return true;
    }

    /// Returns the thread with the earliest simulated time among those that can run, or null if
    /// none can.
    [[nodiscard]] sim_host* earliest() const noexcept {
        sim_host* first = nullptr;
        for (sim_host* const h : hosts_) {
            if (h->now == sim_host::state::runnable &&
                (first == nullptr || h->clock < first->clock)) {
                first = h;
            }
        }
        return first;
    }

    /// Runs queued work until a thread can run. Returns the thread that is to run next. If no
    /// thread can run, returns null at once if `wait` is false, otherwise after `patience` of real
    /// time. Also returns null if `driver_` is no longer `mine`, the number of this selection.
    sim_host* choose(lock& held, sim_host* self, std::uint64_t mine = 0, bool wait = true,
                     std::chrono::nanoseconds patience = forever) {
        for (;;) {
            if (mine != 0 && driver_ != mine) { return nullptr; }
            sim_host* const first = earliest();
            if (schedule_.executing()) {
                progress.wait(held);
            } else if (schedule_.next() <= (first == nullptr ? sim_time::max() : first->clock) &&
                       schedule_.next() != sim_time::max()) {
                schedule_.step(held);
                progress.notify_all();
            } else if (first != nullptr) {
                return order_ == sim_order::by_time ? first : pick(self);
            } else if (any_waits_outside() || any_away()) {
                if (!wait) { return nullptr; }
                if (patience == forever) {
                    progress.wait(held);
                } else if (progress.wait_for(held, patience) == std::cv_status::timeout &&
                           earliest() == nullptr) {
                    return nullptr;
                }
            } else if (schedule_.stuck() && on_stuck) {
                on_stuck();
            } else {
                resolve_deadlock();
            }
        }
    }

    /// Returns one of the threads that can run, selected by `choices`. With `sim_order::by_choice`,
    /// at most `preemptions_` calls return another thread while `self` can run.
    sim_host* pick(sim_host* self) {
        bool const can_go_on = self != nullptr && self->now == sim_host::state::runnable;
        if (can_go_on && order_ == sim_order::by_choice && preempted_ >= preemptions_) {
            return self;
        }
        candidates_.clear();
        if (can_go_on) { candidates_.push_back(self); }
        for (sim_host* const h : hosts_) {
            if (h != self && h->now == sim_host::state::runnable) { candidates_.push_back(h); }
        }
        unsigned const  chosen = choices.choose(static_cast<unsigned>(candidates_.size()));
        sim_host* const next   = candidates_[chosen];
        if (can_go_on && next != self) { ++preempted_; }
        return next;
    }

    [[nodiscard]] bool any_waits_outside() const noexcept {
        return std::any_of(hosts_.begin(), hosts_.end(),
                           [](sim_host* h) { return h->may_be_outside; });
    }

    /// Called if all scheduled threads wait for each other. Reports the deadlock and wakes one of
    /// them: its wait throws `sim_error{deadlock}`.
    void resolve_deadlock() {
        if (on_deadlock) { on_deadlock(sim_deadlock_text(hosts_)); }
        sim_host* const victim = sim_deadlock_victim(hosts_);
        wake(*victim, schedule_.now());
        victim->deadlocked = true;
    }

    sim_schedule&        schedule_;
    std::deque<sim_host> all_;
    /// The threads in simulated time that have not ended, in the order in which they entered.
    std::vector<sim_host*> hosts_;
    std::vector<sim_host*> candidates_;
    sim_host*              running_ = nullptr;
    /// Number of the selection in progress (a search for the thread that runs next), or 0. If it
    /// changes before the selection ends, the result of the selection is ignored.
    std::uint64_t driver_    = 0;
    std::uint64_t drives_    = 0; ///< number of selections (see `driver_`) that have begun
    std::uint64_t activity_  = 0; ///< number of calls and waits of `sim_thread`s so far
    std::uint64_t count_     = 0;
    unsigned      preempted_ = 0;
    sim_order     order_;
    unsigned      preemptions_;
};

} // namespace detail
} // namespace vram
