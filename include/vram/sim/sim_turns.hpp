// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_turns` lets participating host threads run one at a time, in an order that can be repeated.

#include <vram/base/error.hpp>       // locks_held
#include <vram/sim/sim_choices.hpp>  // sim_choices
#include <vram/sim/sim_error.hpp>    // sim_error
#include <vram/sim/sim_host.hpp>     // sim_host
#include <vram/sim/sim_schedule.hpp> // sim_schedule

#include <algorithm>          // any_of, max
#include <chrono>             // nanoseconds
#include <condition_variable> // condition_variable
#include <cstddef>            // size_t
#include <cstdint>            // uint64_t
#include <deque>              // deque
#include <functional>         // function
#include <mutex>              // unique_lock
#include <string>             // string, to_string
#include <vector>             // vector

namespace vram {

/// The baton of the participating threads, and how far virtual time may go while each of them could
/// still ask for something. A thread passes the baton before each of its calls, where somebody else
/// is due, and whenever it must wait. Ordinary threads need no baton: they wait on the real
/// condition.
///
/// Threads   under the machine's lock, which waiting lets go
/// Cost      a call of the only participating thread costs two comparisons
class sim_turns {
public:
    using lock = std::unique_lock<std::mutex>;

    /// Called when every participating thread waits for another, with who waits where.
    std::function<void(std::string)> on_deadlock;

    sim_turns(sim_schedule& schedule, sim_options const& options)
        : choices{options.threads, options.seed, options.choices},
          schedule_{schedule},
          order_{options.threads},
          preemptions_{options.preemptions} {}

    sim_host    outside; ///< all ordinary threads
    sim_choices choices;

    [[nodiscard]] sim_order   order() const noexcept { return order_; }
    [[nodiscard]] std::size_t participants() const noexcept { return hosts_.size(); }

    /// A new participating thread that starts where `from` is. The first one has the baton.
    sim_host& enter(sim_host& from, std::size_t slot) {
        sim_host& h = all_.emplace_back();
        h.number    = ++count_;
        h.clock     = from.clock;
        h.knows     = from.knows;
        h.slot      = slot;
        h.advance();
        from.advance();
        hosts_.push_back(&h);
        if (running_ == nullptr && driver_ == 0) { running_ = &h; }
        progress.notify_all();
        return h;
    }

    /// Waits for the first turn of a new thread.
    void begin(lock& held, sim_host& self) { await_turn(held, self); }

    /// The thread takes no part any more; what it knew goes to whoever waits for it.
    void leave(sim_host& self) {
        self.now = sim_host::state::ended;
        std::erase(hosts_, &self);
        for (sim_host* const h : hosts_) {
            if (std::erase(h->threads, &self) != 0 && h->threads.empty()) { wake(*h, self.clock); }
        }
        if (running_ == &self) { running_ = nullptr; }
        progress.notify_all();
    }
    /// Passes the baton on after `leave`. Where nobody can go on now, whoever is woken first takes
    /// it.
    void pass_on(lock& held) {
        if (running_ != nullptr || driver_ != 0 || hosts_.empty()) { return; }
        std::uint64_t const mine = driver_ = ++drives_;
        sim_host* const     next           = choose(held, nullptr, mine, false);
        if (driver_ != mine) { return; }
        driver_ = 0;
        if (next != nullptr) { hand_to(*next); }
    }

    /// A point where another thread may be let on, before each call of a participating thread.
    void point(lock& held, sim_host& self) {
        ++activity_;
        if (self.now == sim_host::state::away && detail::locks_held == 0) {
            self.started = true;
            come_back(held, self);
        }
        if (!self.started) {
            self.started = true; // it was just chosen: choosing again would count twice
            return;
        }
        if (detail::locks_held != 0) {
            return;
        } // whoever were let on might wait for a lock, really
        sim_host* const next = choose(held, &self);
        if (next != &self) {
            hand_to(*next);
            await_turn(held, self);
        }
        catch_up(self);
    }

    /// Waits until `done()`; the reason is in `self` already (operation, gate or thread).
    template <class Done>
    void block(lock& held, sim_host& self, Done done) {
        (void)block_for(held, self, forever, done);
    }
    /// The same, but no longer than `patience` of real time in which no participating thread calls
    /// the machine: the thread that has the baton then waits for something that the machine does
    /// not see, and loses the baton until it calls again. Returns true if `done()`.
    template <class Done>
    bool block_for(lock& held, sim_host& self, std::chrono::nanoseconds patience, Done done) {
        ++activity_;
        if (self.now == sim_host::state::away) { come_back(held, self); }
        while (!done()) {
            self.now = sim_host::state::blocked;
            if (!dispatch(held, patience) || !await_turn(held, self, patience)) {
                take_over(self);
                forget(self);
                return done();
            }
            if (self.giving_up) {
                self.giving_up = false;
                forget(self);
                throw sim_error{sim_status::deadlock};
            }
        }
        forget(self);
        catch_up(self);
        return true;
    }

    static constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

    /// Whether a participating thread waits really.
    [[nodiscard]] bool any_away() const noexcept {
        return std::any_of(hosts_.begin(), hosts_.end(),
                           [](sim_host* h) { return h->now == sim_host::state::away; });
    }
    /// Calls of participating threads so far.
    [[nodiscard]] std::uint64_t activity() const noexcept { return activity_; }

    /// `h` may go on, not before `when`.
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

    /// Whether an ordinary thread may let time go on: no participating thread could still ask for
    /// something earlier.
    [[nodiscard]] bool outside_may_step() const noexcept {
        return running_ == nullptr && !schedule_.executing();
    }

    std::condition_variable progress; ///< something happened that ordinary threads may wait for

private:
    void forget(sim_host& self) {
        self.operation = {};
        self.threads.clear();
        self.gate           = nullptr;
        self.locked_out     = false;
        self.may_be_outside = false;
    }

    /// Where order is not by time, a thread that was held up is late.
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
    /// Returns false if no thread called the machine for so long.
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
    /// The thread that has the baton waits really: `self` goes on instead.
    void take_over(sim_host& self) {
        if (running_ != nullptr && running_ != &self) { running_->now = sim_host::state::away; }
        driver_  = 0;
        running_ = &self;
        self.now = sim_host::state::runnable;
        progress.notify_all();
    }
    /// A thread from which the baton was taken waits for its turn.
    void come_back(lock& held, sim_host& self) {
        self.now   = sim_host::state::runnable;
        self.clock = std::max(self.clock, schedule_.now());
        progress.notify_all();
        if (running_ == nullptr && driver_ == 0) { hand_to(self); }
        await_turn(held, self);
    }

    /// Gives the baton to whoever is due; waits for ordinary threads where only they can help.
    /// Returns false if no thread called the machine for `patience`.
    bool dispatch(lock& held, std::chrono::nanoseconds patience) {
        running_                 = nullptr;
        std::uint64_t const mine = driver_ = ++drives_;
        sim_host* const     next           = choose(held, nullptr, mine, true, patience);
        if (driver_ != mine) { return true; } // another thread took the baton
        driver_ = 0;
        if (next == nullptr) { return false; }
        hand_to(*next);
        return true;
    }

    /// The earliest of the threads that can run; null where none can.
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

    /// Lets queued work happen as far as it may, and says who is next; null if the baton is taken
    /// from the driver `mine`, or if nothing happens for `patience`.
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
            } else {
                give_up();
            }
        }
    }

    /// One of those that can run, `self` first, then by number.
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

    /// Every thread waits for another: those at gates are told so, and unwind. Who waits for a lock
    /// is told last: it may be where nothing can be thrown, and the others let locks go.
    void give_up() {
        if (on_deadlock) { on_deadlock(who_waits()); }
        sim_host* victim = nullptr;
        for (sim_host* const h : hosts_) {
            if (h->gate == nullptr || (h->locked_out && victim != nullptr)) { continue; }
            victim = h;
        }
        if (victim == nullptr) { victim = hosts_.back(); }
        wake(*victim, schedule_.now());
        victim->giving_up = true;
    }

    [[nodiscard]] std::string who_waits() const {
        std::string text;
        for (sim_host const* const h : hosts_) {
            text += (text.empty() ? "host thread " : ", host thread ") + std::to_string(h->number) +
                    (h->locked_out        ? " waits for a lock"
                     : h->gate != nullptr ? " waits at a gate"
                                          : " waits for others to end");
        }
        return text;
    }

    sim_schedule&          schedule_;
    std::deque<sim_host>   all_;
    std::vector<sim_host*> hosts_; ///< those that take part now, by number
    std::vector<sim_host*> candidates_;
    sim_host*              running_  = nullptr;
    std::uint64_t          driver_   = 0; ///< number of the dispatch that is about to name the next
    std::uint64_t          drives_   = 0; ///< dispatches so far
    std::uint64_t          activity_ = 0; ///< calls of participating threads
    std::uint64_t          count_    = 0;
    unsigned               preempted_ = 0;
    sim_order              order_;
    unsigned               preemptions_;
};

} // namespace vram
