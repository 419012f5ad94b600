// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_lock` is a lock in virtual time.

#include <vram/base/error.hpp>         // report_error, held_one
#include <vram/base/report_caught.hpp> // report_caught
#include <vram/sim/sim_node.hpp>       // sim_node, sim_host

#include <condition_variable> // condition_variable
#include <mutex>              // unique_lock
#include <utility>            // exchange

namespace vram {

/// As `vram::lock`, and what was done before it was let go happened before what is done by the next
/// who holds it. It belongs to the node that was current when it was made.
///
/// Failure   `sim_error{deadlock}` where every participating thread waits for another, and none of
///           them at a gate
/// Threads   any; participating threads wait in virtual time, so that whoever holds it may wait for
///           a stream meanwhile; ordinary ones wait really. Who holds it is not stopped to let
///           another go on
/// Cost      a lock of the node to take it, and one to give it back
class sim_lock {
public:
    /// Holds the lock until it ends.
    class [[nodiscard]] guard {
    public:
        explicit guard(sim_lock const& owner) : owner_{&owner} { lock(); }
        guard(guard&& other) noexcept
            : owner_{other.owner_}, held_{std::exchange(other.held_, false)} {}
        guard& operator=(guard&&) = delete;
        ~guard() {
            if (held_) { unlock(); }
        }

        void lock() {
            owner_->take();
            held_ = true;
            detail::held_one();
        }
        void unlock() noexcept {
            bool const errors = detail::let_one_go();
            held_             = false;
            owner_->let_go();
            if (errors) [[unlikely]] { detail::tell_errors(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }

    private:
        sim_lock const* owner_;
        bool            held_ = false;
    };

    sim_lock() : machine_{&sim_node::current().machine()} {}
    sim_lock(sim_lock&& other) noexcept : machine_{other.machine_} {} // the new place is fresh
    sim_lock& operator=(sim_lock&&) noexcept { return *this; }

    [[nodiscard]] guard hold() const { return guard{*this}; }

private:
    using node_lock = std::unique_lock<std::mutex>;

    /// Counts one more who waits.
    struct waiter {
        explicit waiter(unsigned& n) : count{++n} {}
        waiter(waiter const&)            = delete;
        waiter& operator=(waiter const&) = delete;
        ~waiter() { --count; }

        unsigned& count;
    };

    /// The calling thread, where it participates. Code inside an operation is nobody's.
    [[nodiscard]] sim_host* me() const {
        return detail::inside_effect ? nullptr : detail::self(machine_->id).host;
    }
    /// All the ordinary threads are one.
    [[nodiscard]] sim_host& books_of(sim_host* self) const noexcept {
        return self != nullptr ? *self : machine_->turns.outside;
    }

    void take() const {
        sim_host* const self = me();
        node_lock       held{machine_->mutex};
        if (taken_) { await(held, self); }
        try {
            if (!detail::inside_effect) { machine_->hear(books_of(self), knows_); }
        } catch (...) { // no memory for what it hears: the next one has the lock instead
            wake(machine_->schedule.now());
            throw;
        }
        taken_   = true;
        outside_ = self == nullptr;
    }
    void await(node_lock& held, sim_host* self) const {
        waiter const one{waiting_};
        if (self == nullptr) {
            return free_.wait(held, [&] { return !taken_; });
        }
        machine_->turns.block(held, *self, [&] {
            self->gate           = this;
            self->locked_out     = true;
            self->may_be_outside = outside_;
            return !taken_;
        });
    }

    /// What may fail comes last: the lock is let go in any case.
    void let_go() const noexcept {
        try {
            node_lock const held{machine_->mutex};
            sim_host* const self = me();
            taken_               = false;
            wake(self != nullptr ? self->clock : machine_->schedule.now());
            knows_.join(books_of(self).knows);
            books_of(self).advance();
        } catch (...) { // no memory for what the next holder should hear
            report_caught({.kind = error_kind::platform_error,
                           .call = "releasing a lock of the simulated device"});
        }
    }
    void wake(sim_time when) const noexcept {
        if (waiting_ == 0) { return; }
        machine_->turns.wake_waiters(this, when);
        free_.notify_one();
    }

    sim_machine*                    machine_;
    mutable bool                    taken_   = false;
    mutable bool                    outside_ = false; ///< by an ordinary thread
    mutable unsigned                waiting_ = 0;
    mutable std::condition_variable free_; ///< for ordinary threads
    mutable vector_clock            knows_;
};

} // namespace vram
