// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_gate` lets a host thread wait for another, and passes on the later of their clocks.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/report_caught.hpp> // report_caught
#include <vram/sim/sim_node.hpp>       // sim_node, sim_host

#include <algorithm> // max
#include <chrono>    // nanoseconds, milliseconds
#include <cstdint>   // uint64_t
#include <memory>    // shared_ptr, make_shared
#include <mutex>     // unique_lock
#include <optional>  // optional
#include <utility>   // exchange, move, swap

namespace vram {

/// A monitor, as `vram::gate`: what was done before it was let go happened before what is done by
/// the next who holds it. It belongs to the node that was current when it was made. A host call in
/// a stream may hold it too, and hands on what came before it in the stream; so a thread that holds
/// it makes no other call of the machine meanwhile.
///
/// Threads   any; participating threads wait in virtual time, ordinary ones really. An ordinary
///           thread that is to notify participating ones takes the gate (or notifies) once before
///           they wait: the gate then knows that it may, and theirs is no deadlock
/// Failure   `sim_error{deadlock}` out of `wait` where every participating thread waits for another
class sim_gate {
public:
    /// Holds the gate until it ends.
    class guard {
    public:
        guard() = default;
        explicit guard(sim_gate& gate) : gate_{&gate} { gate.acquire(); }
        guard(guard&& other) noexcept : gate_{std::exchange(other.gate_, nullptr)} {}
        guard& operator=(guard&& other) noexcept {
            std::swap(gate_, other.gate_);
            return *this;
        }
        ~guard() { unlock(); }

        void unlock() noexcept {
            if (gate_ != nullptr) { std::exchange(gate_, nullptr)->release(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return gate_ != nullptr; }

    private:
        sim_gate* gate_ = nullptr;
    };

    sim_gate() : machine_{&sim_node::current().machine()} {}
    sim_gate(sim_gate const&)            = delete;
    sim_gate& operator=(sim_gate const&) = delete;

    [[nodiscard]] guard hold() { return guard{*this}; }

    /// Waits, letting the gate go meanwhile, until `ready()` is true; `ready` is called with the
    /// gate held.
    template <class Ready>
    void wait(guard&, Ready ready) {
        while (!ready()) { await_notice(); }
    }

    /// The same, but no longer than `most` of virtual time; whether `ready()` was true.
    template <class Ready>
    bool wait_for(guard&, sim_time most, Ready ready) {
        alarm const until{*this, most};
        while (!ready()) {
            if (until.rung()) { return false; }
            await_notice();
        }
        return true;
    }

    /// The same, also if a participating thread really waits, which virtual time does not see: then
    /// no longer than `most` of real time in which no such thread calls the machine, at least
    /// 200 ms.
    template <class Ready>
    bool wait_at_most(guard&, sim_time most, Ready ready) {
        constexpr std::chrono::nanoseconds least = std::chrono::milliseconds{200};
        bool                               away  = false;
        std::optional<alarm>               until;
        until.emplace(*this, most);
        while (!ready()) {
            if (until->rung()) {
                bool const was = std::exchange(away, somebody_away());
                if (!away && !was) { return false; }
                if (!away) { until.emplace(*this, most); } // time did not stand still before
            }
            if (!await_notice(std::max<std::chrono::nanoseconds>(most, least))) { return ready(); }
        }
        return true;
    }

    /// Lets every waiter look again.
    void notify() noexcept {
        std::unique_lock const held{machine_->mutex};
        ++notices_;
        sim_host* const self = me();
        if (self == nullptr && !detail::inside_effect) { used_outside_ = true; }
        machine_->turns.wake_waiters(&notices_,
                                     self != nullptr ? self->clock : machine_->schedule.now());
    }

private:
    /// Lets everybody at the gate look again at a moment to come. Where nobody waits any more, the
    /// moment passes without anything.
    class alarm {
    public:
        alarm(sim_gate& gate, sim_time in) : gate_{std::make_shared<sim_gate*>(&gate)} {
            sim_machine&           m    = *gate.machine_;
            sim_host* const        self = gate.me();
            std::unique_lock const held{m.mutex};
            sim_time const         now = self != nullptr ? self->clock : m.schedule.now();
            sim_task               task{.name = "alarm"};
            task.settle = [g = gate_, rung = rung_] {
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

    /// With the machine's lock held.
    void ring() {
        ++notices_;
        machine_->turns.wake_waiters(&notices_, machine_->schedule.now());
    }

    bool somebody_away() {
        std::unique_lock const held{machine_->mutex};
        return machine_->turns.any_away();
    }

    /// The calling thread, where it participates. Code inside an operation is nobody's.
    sim_host* me() const {
        return detail::inside_effect ? nullptr : detail::self(machine_->id).host;
    }

    void acquire() {
        sim_host* const  self = me();
        std::unique_lock held{machine_->mutex};
        if (self != nullptr) { machine_->turns.point(held, *self); }
        take(held, self);
    }

    void take(std::unique_lock<std::mutex>& held, sim_host* self) {
        if (self != nullptr) {
            machine_->turns.block(held, *self, [&] {
                self->gate           = this;
                self->may_be_outside = used_outside_;
                return !held_;
            });
            self->clock = std::max(self->clock, let_go_);
            machine_->hear(*self, knows_);
        } else {
            used_outside_ = used_outside_ || !detail::inside_effect;
            while (held_) { machine_->turns.progress.wait(held); }
            if (!detail::inside_effect) { machine_->hear(machine_->turns.outside, knows_); }
        }
        held_ = true;
    }

    void release() noexcept {
        try {
            std::unique_lock const held{machine_->mutex};
            let_go(me());
        } catch (...) { // no memory for what the next holder should hear
            report_caught({.kind = error_kind::platform_error,
                           .call = "releasing a lock of the simulated device"});
        }
    }

    /// What may fail comes last: the gate is let go in any case.
    void let_go(sim_host* self) {
        held_   = false;
        let_go_ = self != nullptr ? self->clock : std::max(let_go_, machine_->schedule.now());
        machine_->turns.wake_waiters(this, let_go_);
        if (detail::inside_effect) { // a host call of a stream: whatever came before it there
            if (detail::effect_knows != nullptr) { knows_.join(*detail::effect_knows); }
            return;
        }
        sim_host& who = self != nullptr ? *self : machine_->turns.outside;
        knows_.join(who.knows);
        who.advance();
    }

    /// Lets the gate go, waits until a thread notifies, and takes it again. Returns false if no
    /// participating thread calls the machine for `patience`.
    bool await_notice(std::chrono::nanoseconds patience = sim_turns::forever) {
        sim_host* const     self = me();
        std::unique_lock    held{machine_->mutex};
        std::uint64_t const seen = notices_;
        bool                came = true;
        try {
            let_go(self);
            if (self != nullptr) {
                came = machine_->turns.block_for(held, *self, patience, [&] {
                    self->gate           = &notices_;
                    self->may_be_outside = used_outside_;
                    return notices_ != seen;
                });
            } else {
                while (notices_ == seen && came) { came = machine_->outside_step(held, patience); }
            }
        } catch (...) {
            take(held, self); // the guard will let it go
            throw;
        }
        take(held, self);
        return came;
    }

    sim_machine*  machine_;
    bool          held_         = false;
    bool          used_outside_ = false; ///< an ordinary thread may notify
    std::uint64_t notices_      = 0;
    sim_time      let_go_{};
    vector_clock  knows_;
};

} // namespace vram
