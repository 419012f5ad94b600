// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_gate` is a mutex with a condition variable in simulated time.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/sim/machine/sim_outside_step.hpp>
#include <vram/sim/machine/sim_sleep.hpp>
#include <vram/sim/sim_node.hpp> // sim_node, detail::sim_host

#include <algorithm> // find, max
#include <chrono>    // nanoseconds, milliseconds
#include <cstdint>
#include <memory>   // shared_ptr, make_shared
#include <mutex>    // unique_lock
#include <optional> // optional
#include <utility>  // in_place
#include <vector>   // vector

namespace vram {

/// A mutex with a condition variable for threads in simulated time (`sim_thread`). A thread that
/// holds the gate must make no other call of the simulated device. A host function of a stream
/// (`sim_call_host`) may hold it: later holders are ordered after the work before the function, but
/// the function is not ordered after earlier holders, because its accesses are checked at its call.
///
///     sim_gate g;
///     auto     held = g.hold();
///     g.wait(held, [&] { return ready; }); // another thread sets `ready` and calls `g.notify()`
///
/// Failure   A wait throws `sim_error{deadlock}` if all `sim_thread`s wait for each other.
/// Threads   If a thread that is no `sim_thread` will end such a wait, it must have locked or
///           notified the gate before; otherwise the wait may count as a deadlock.
class sim_gate {
public:
    /// Locks the gate (a mutex) in its constructor, unlocks it in its destructor or `unlock`.
    class guard {
    public:
        guard() = default;
        /// Acquires the gate.
        explicit guard(sim_gate& gate) : gate_{&gate} { gate.acquire(); }
        guard(guard&& other) noexcept : gate_{std::exchange(other.gate_, nullptr)} {}
        guard& operator=(guard&& other) noexcept {
            std::swap(gate_, other.gate_);
            return *this;
        }
        ~guard() { unlock(); }

        /// Releases the gate.
        void unlock() noexcept {
            if (gate_ != nullptr) { std::exchange(gate_, nullptr)->release(); }
        }
        /// Returns true if the guard holds the gate.
        [[nodiscard]] bool owns_lock() const noexcept { return gate_ != nullptr; }

    private:
        sim_gate* gate_ = nullptr;
    };

    sim_gate() : machine_{&sim_node::current().machine()} {}
    sim_gate(sim_gate const&)            = delete;
    sim_gate& operator=(sim_gate const&) = delete;

    [[nodiscard]] guard hold() { return guard{*this}; }

    /// Blocks with the gate unlocked until `ready()`, called with the gate locked, returns true. If
    /// a `sim_thread` is notified later than `polls` after the call, waking costs it
    /// `sim_costs::thread_wake`.
    template <class Ready>
    void wait(guard&, Ready ready, sim_time polls = {}) {
        detail::sim_sleep self{*machine_, me(), polls};
        for (; !ready(); self.woken()) { await_notice(); }
    }

    /// As `wait`, but for at most `most` of simulated time. Returns the last result of `ready()`. A
    /// notification within the time `polls` wakes without a cost.
    template <class Ready>
    bool wait_for(guard&, sim_time most, Ready ready, sim_time polls = {}) {
        alarm const       until{*this, most};
        detail::sim_sleep self{*machine_, me(), polls};
        for (; !ready(); self.woken()) {
            if (until.rung()) { return false; }
            await_notice();
        }
        return true;
    }

    /// Blocks until `ready()` returns true, without cost for waking. Gives up after `most` of
    /// simulated time, or of real time (at least 200 ms) without a call of a `sim_thread`. Returns
    /// the last result of `ready()`.
    template <class Ready>
    bool wait_at_most(guard&, sim_time most, Ready ready) {
        constexpr std::chrono::nanoseconds least = std::chrono::milliseconds{200};
        bool                               away  = false;
        std::optional<alarm>               until{std::in_place, *this, most};
        while (!ready()) {
            if (until->rung()) {
                bool const was = std::exchange(away, any_thread_away());
                if (!away && !was) { return false; }
                // A `sim_thread` blocked in real time while the limit `most` passed. Now none does,
                // so the limit begins again.
                if (!away) { until.emplace(*this, most); }
            }
            if (!await_notice(std::max<std::chrono::nanoseconds>(most, least))) { return ready(); }
        }
        return true;
    }

    /// As `wait_for`, for a thread that polls the word at `where`: writes of the word by streams
    /// also wake it, and waking costs no simulated time.
    template <class Ready>
    bool wait_for_word(guard& held, sim_time most, std::uint32_t const* where, Ready ready) {
        word_watch const watch{*this, reinterpret_cast<std::uintptr_t>(where)};
        return wait_for(held, most, ready, sim_time::max());
    }

    /// Wakes all threads that wait at the gate (a condition variable); they call `ready` again.
    void notify() noexcept {
        std::unique_lock const held{machine_->mutex};
        ++notices_;
        detail::sim_host* const self = me();
        if (self == nullptr && !detail::inside_effect) { used_outside_ = true; }
        machine_->turns.wake_waiters(&notices_,
                                     self != nullptr ? self->clock : machine_->schedule.now());
    }

private:
    /// Wakes the threads that wait at the gate after `in` of simulated time, unless the object is
    /// destroyed before.
    class alarm {
    public:
        alarm(sim_gate& gate, sim_time in) : gate_{std::make_shared<sim_gate*>(&gate)} {
            detail::sim_machine&    m    = *gate.machine_;
            detail::sim_host* const self = gate.me();
            std::unique_lock const  held{m.mutex};
            sim_time const          now = self != nullptr ? self->clock : m.schedule.now();
            detail::sim_task        task{.name = "alarm"};
            task.completed = [g = gate_, rung = rung_] {
                *rung = true;
                if (*g != nullptr) { (*g)->ring(); }
            };
            m.schedule.submit(m.schedule.make(std::move(task), now + in, 0));
            m.turns.progress.notify_all();
        }
        alarm(alarm&&) = delete;
        ~alarm() {
            std::unique_lock const held{(*gate_)->machine_->mutex};
            *gate_ = nullptr;
        }
        [[nodiscard]] bool rung() const {
            std::unique_lock const held{(*gate_)->machine_->mutex};
            return *rung_;
        }

    private:
        std::shared_ptr<sim_gate*> gate_;
        std::shared_ptr<bool>      rung_ = std::make_shared<bool>(false);
    };

    /// While this object exists, writes of the word at `where` by streams wake the threads that
    /// wait at the gate.
    class word_watch {
    public:
        word_watch(sim_gate& gate, std::uintptr_t where) : gate_{gate}, where_{where} {
            std::unique_lock const held{gate.machine_->mutex};
            gate.machine_->words[where].gates.push_back(&gate.notices_);
        }
        word_watch(word_watch&&) = delete;
        ~word_watch() {
            std::unique_lock const       held{gate_.machine_->mutex};
            std::vector<std::uint64_t*>& all = gate_.machine_->words[where_].gates;
            all.erase(std::find(all.begin(), all.end(), &gate_.notices_));
        }

    private:
        sim_gate&      gate_;
        std::uintptr_t where_;
    };

    /// Wakes the threads that wait at the gate. The caller holds the machine's lock.
    void ring() {
        ++notices_;
        machine_->turns.wake_waiters(&notices_, machine_->schedule.now());
    }

    bool any_thread_away() {
        std::unique_lock const held{machine_->mutex};
        return machine_->turns.any_away();
    }

    /// Returns the state of the calling thread if it is in simulated time, else null. Also null in
    /// the body of a kernel or host function.
    detail::sim_host* me() const {
        return detail::inside_effect ? nullptr : detail::self(machine_->id).host;
    }

    void acquire() {
        detail::sim_host* const self = me();
        std::unique_lock        held{machine_->mutex};
        if (self != nullptr) { machine_->turns.preemption_point(held, *self); }
        take(held, self);
    }

    void take(std::unique_lock<std::mutex>& held, detail::sim_host* self) {
        if (self != nullptr) {
            machine_->turns.block(held, *self, [&] {
                self->gate           = this;
                self->may_be_outside = used_outside_;
                return !held_;
            });
            self->clock = std::max(self->clock, let_go_);
            machine_->acquire(*self, vclock_);
        } else {
            used_outside_ = used_outside_ || !detail::inside_effect;
            while (held_) { machine_->turns.progress.wait(held); }
            if (!detail::inside_effect) { machine_->acquire(machine_->caller(), vclock_); }
        }
        held_ = true;
    }

    void release() noexcept {
        try {
            std::unique_lock const held{machine_->mutex};
            let_go(me());
        } catch (...) {
            // The order could not be stored for lack of host memory. No more races are reported.
            detail::report_caught({.kind = error_kind::platform_error,
                                   .call = "releasing a lock of the simulated device"});
        }
    }

    /// Unlocks the gate, and makes everything that its holder did happen before the next lock by a
    /// host thread. The unlock in a kernel's body orders nothing.
    void let_go(detail::sim_host* self) {
        // The gate must be unlocked even if a call below throws.
        held_   = false;
        let_go_ = self != nullptr ? self->clock : std::max(let_go_, machine_->schedule.now());
        machine_->turns.wake_waiters(this, let_go_);
        try {
            // `effect_vclock` is null in the body of a kernel, which orders nothing. In a host
            // function, it is the clock of the work before it.
            if (detail::inside_effect) {
                if (detail::effect_vclock != nullptr) { vclock_.join(*detail::effect_vclock); }
                return;
            }
            detail::sim_host& holder = machine_->caller();
            vclock_.join(holder.vclock);
            holder.advance();
        } catch (...) {
            machine_->checker.lose_order();
            throw;
        }
    }

    /// Unlocks the gate, waits for a `notify`, and locks the gate again. Returns false if none
    /// came, and no `sim_thread` made a call, for `patience` of real time.
    bool await_notice(std::chrono::nanoseconds patience = detail::sim_turns::forever) {
        detail::sim_host* const self = me();
        std::unique_lock        held{machine_->mutex};
        std::uint64_t const     seen = notices_;
        bool                    came = true;
        try {
            let_go(self);
            if (self != nullptr) {
                came = machine_->turns.block_for(held, *self, patience, [&] {
                    self->gate           = &notices_;
                    self->may_be_outside = used_outside_;
                    return notices_ != seen;
                });
            } else {
                while (notices_ == seen && came) {
                    came = detail::sim_outside_step(*machine_, held, patience);
                }
            }
        } catch (...) {
            // An exception must leave the gate locked, because the caller's `guard` will unlock it.
            take(held, self);
            throw;
        }
        take(held, self);
        return came;
    }

    detail::sim_machine* machine_;
    bool                 held_ = false;
    /// True once a thread outside simulated time has locked or notified the gate. As it may notify
    /// again, no wait at the gate then counts as a deadlock.
    bool                 used_outside_ = false;
    std::uint64_t        notices_      = 0;
    sim_time             let_go_{};
    detail::vector_clock vclock_;
};

} // namespace vram
