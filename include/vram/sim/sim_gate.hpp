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
#include <atomic>    // atomic
#include <chrono>    // nanoseconds, milliseconds
#include <cstdint>
#include <memory>   // shared_ptr, make_shared
#include <mutex>    // unique_lock
#include <optional> // optional
#include <utility>  // in_place
#include <vector>   // vector

namespace vram {

/// A mutex with a condition variable for threads in simulated time (`sim_thread`). A thread that
/// holds the gate must make no other call of the simulated device.
///
///     sim_gate g;
///     auto     held = g.hold();
///     g.wait(held, [&] { return ready; }); // another thread sets `ready` and calls `g.notify()`
///
/// A host function of a stream (`sim_call_host`) may hold the gate, too. Work of the stream before
/// the function then happens before later holders continue. The function itself is not ordered
/// after earlier holders, because its accesses are checked when it is queued.
///
/// Failure   A wait throws `sim_error{deadlock}` if all `sim_thread`s wait for each other. Then the
///           guard still holds the gate, unless the wait cannot lock it again (`owns_lock`).
/// Threads   A thread that is no `sim_thread` may end a wait by `notify`. It must have locked or
///           notified the gate before that wait. Otherwise, the wait may count as a deadlock.
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
        /// Returns true if this guard holds the gate (a mutex).
        [[nodiscard]] bool owns_lock() const noexcept { return gate_ != nullptr; }

    private:
        friend class sim_gate;
        sim_gate* gate_ = nullptr;
    };

    sim_gate() : machine_{&sim_node::current().machine()} {}
    sim_gate(sim_gate const&)            = delete;
    sim_gate& operator=(sim_gate const&) = delete;

    [[nodiscard]] guard hold() { return guard{*this}; }

    /// Blocks until `ready()` returns true. Calls `ready` at once and after each `notify`, with the
    /// gate locked. Between these calls, the gate is unlocked. If a `sim_thread` has waited longer
    /// than `polls`, waking it costs `sim_costs::thread_wake`.
    template <class Ready>
    void wait(guard& held, Ready ready, sim_time polls = {}) {
        detail::sim_sleep self{*machine_, me(), polls};
        for (; !ready(); self.woken()) { await_notice(held, notices_); }
    }

    /// Blocks as `wait` does until `ready()` returns true, but at most for `most` of simulated
    /// time. Returns the last result of `ready()`. During the first `polls` of the wait, waking the
    /// thread costs no simulated time.
    template <class Ready>
    bool wait_for(guard& held, sim_time most, Ready ready, sim_time polls = {}) {
        alarm const       until{*this, most};
        detail::sim_sleep self{*machine_, me(), polls};
        for (std::uint64_t seen = notices_; !ready(); self.woken(), seen = notices_) {
            if (until.rung()) { return false; }
            await_notice(held, seen);
        }
        return true;
    }

    /// Blocks until `ready()` returns true, or for `most` of simulated time. While a `sim_thread`
    /// is blocked in real time, the wait may last longer. It also ends if no `sim_thread` makes a
    /// call for `most` (at least 200 ms) of real time. Returns the last result of `ready()`.
    template <class Ready>
    bool wait_at_most(guard& held, sim_time most, Ready ready) {
        constexpr std::chrono::nanoseconds least = std::chrono::milliseconds{200};
        bool                               away  = false;
        std::optional<alarm>               until{std::in_place, *this, most};
        for (std::uint64_t seen = notices_; !ready(); seen = notices_) {
            if (until->rung()) {
                if (!std::exchange(away, any_thread_away()) && !away) { return false; }
                // A `sim_thread` was blocked in real time and now none is: `most` begins again.
                if (!away) { until.emplace(*this, most); }
            }
            if (!await_notice(held, seen, std::max<sim_time>(most, least))) { return ready(); }
        }
        return true;
    }

    /// Blocks as `wait_for` does, for a thread that polls the word at `where`. A write of the word
    /// by a stream also wakes the thread. Waking costs no simulated time.
    template <class Ready>
    bool wait_for_word(guard& held, sim_time most, std::uint32_t const* where, Ready ready) {
        word_watch const watch{*this, reinterpret_cast<std::uintptr_t>(where)};
        return wait_for(held, most, ready, sim_time::max());
    }

    /// Wakes all threads that wait at the gate (a condition variable); they call `ready` again.
    void notify() noexcept {
        std::unique_lock const  held{machine_->mutex};
        detail::sim_host* const self = me();
        if (self == nullptr && !detail::inside_effect) { used_outside_ = true; }
        ring(self != nullptr ? self->clock : machine_->schedule.now());
    }

private:
    /// Wakes the threads that wait at the gate (a condition variable) when `in` of simulated time
    /// has passed. Wakes no thread if the object is destroyed earlier.
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
                if (*g != nullptr) { (*g)->ring((*g)->machine_->schedule.now()); }
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

    /// While this object exists, each write by a stream to the word at the address `where` wakes
    /// the threads that wait at the gate (a condition variable).
    class word_watch {
    public:
        word_watch(sim_gate& gate, std::uintptr_t where) : gate_{gate}, where_{where} {
            std::unique_lock const held{gate.machine_->mutex};
            gate.machine_->words[where].gates.push_back(&gate.notices_);
        }
        word_watch(word_watch&&) = delete;
        ~word_watch() {
            std::unique_lock const held{gate_.machine_->mutex};
            auto&                  all = gate_.machine_->words[where_].gates;
            all.erase(std::find(all.begin(), all.end(), &gate_.notices_));
        }

    private:
        sim_gate&      gate_;
        std::uintptr_t where_;
    };

    /// Wakes the threads that wait at the gate at the time `when`. The machine's lock is held.
    void ring(sim_time when) {
        ++notices_;
        machine_->turns.wake_waiters(&notices_, when);
    }

    bool any_thread_away() {
        std::unique_lock const held{machine_->mutex};
        return machine_->turns.any_away();
    }

    /// Returns the state of the calling thread if it is in simulated time (a `sim_thread`, or a
    /// thread that started one). Otherwise, and in a kernel or host function, returns null.
    detail::sim_host* me() const {
        return detail::inside_effect ? nullptr : detail::self(machine_->id).host;
    }

    void acquire() {
        detail::sim_host* const self = me();
        std::unique_lock        held{machine_->mutex};
        if (self != nullptr) { machine_->turns.preemption_point(held, *self); }
        take(held, self);
    }

    sim_gate* take(std::unique_lock<std::mutex>& held, detail::sim_host* self) {
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
        return this;
    }

    void release() noexcept {
        try {
            std::unique_lock const held{machine_->mutex};
            let_go(me());
        } catch (...) {
            // This unlock could not be recorded, so the race check reports no more races.
            detail::report_caught({.kind = error_kind::platform_error,
                                   .call = "releasing a lock of the simulated device"});
        }
    }

    /// Unlocks the gate. All that a host thread did before its unlock happens before the next lock
    /// by a host thread. An unlock in the body of a kernel creates no such order.
    void let_go(detail::sim_host* self) {
        // Comes first, so that the gate is unlocked even if a call below throws.
        held_   = false;
        let_go_ = self != nullptr ? self->clock : std::max(let_go_, machine_->schedule.now());
        machine_->turns.wake_waiters(this, let_go_);
        try {
            // An unlock by a host function orders later holders of the gate after the earlier work
            // of the function's stream. In the body of a kernel, `effect_vclock` is null.
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

    /// Unlocks the gate until `notices_` is no longer `seen`. Returns false if, for `most` of real
    /// time, `notices_` stays `seen` and no `sim_thread` makes a call.
    bool await_notice(guard& mine, std::uint64_t seen, sim_time most = detail::sim_turns::forever) {
        detail::sim_host* const self = me();
        std::unique_lock        held{machine_->mutex};
        bool                    came = true;
        mine.gate_                   = nullptr; // stays null if the gate cannot be locked again
        try {
            let_go(self);
            if (self != nullptr) {
                came = machine_->turns.block_for(held, *self, most, [&] {
                    self->gate           = &notices_;
                    self->may_be_outside = used_outside_;
                    return notices_ != seen;
                });
            } else {
                while (notices_ == seen && came) {
                    came = detail::sim_outside_step(*machine_, held, most);
                }
            }
        } catch (...) {
            // Locks the gate (a mutex) again, because `mine` holds it after an exception, too.
            mine.gate_ = take(held, self);
            throw;
        }
        mine.gate_ = take(held, self);
        return came;
    }

    detail::sim_machine* machine_;
    bool                 held_ = false;
    /// True after an ordinary thread (not in simulated time) has locked or notified the gate. A
    /// wait at the gate is then no deadlock, because such a thread may end it.
    bool used_outside_ = false;
    /// Number of notifications. Alarms and writes of words notify without the gate's lock.
    std::atomic<std::uint64_t> notices_{0};
    sim_time                   let_go_{};
    detail::vector_clock       vclock_;
};

} // namespace vram
