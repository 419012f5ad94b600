// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_lock` is a mutex in simulated time.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp>   // report_error, count_lock
#include <vram/sim/sim_node.hpp> // sim_node, sim_host

#include <condition_variable> // condition_variable
#include <cstdint>
#include <mutex> // unique_lock
#include <utility>

namespace vram {
namespace detail {

/// A mutex with the interface of `detail::lock`, for simulated programs. Work before a release
/// happens before work after the next acquisition. If a host function of a stream releases the
/// lock, this applies to the work before that function. A release in the body of a kernel orders
/// nothing.
///
/// Failure   An acquisition throws `sim_error{deadlock}` if all threads in simulated time wait for
///           each other, and none of them waits at a `sim_gate`.
/// Threads   A `sim_thread` waits in simulated time, and any other thread in real time. The holder
///           may wait for a stream.
class sim_lock {
public:
    /// Holds the lock: acquires it in its constructor, releases it in its destructor or `unlock`.
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
            detail::count_lock();
        }
        void unlock() noexcept {
            bool const errors = detail::uncount_lock();
            held_             = false;
            owner_->let_go();
            if (errors) [[unlikely]] { detail::report_stored_errors(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }

    private:
        sim_lock const* owner_;
        bool            held_ = false;
    };

    sim_lock() : machine_{&sim_node::current().machine()} {}
    // The new lock belongs to the same node (simulated machine) as `other`. No thread holds the new
    // lock, even if a thread holds `other`.
    sim_lock(sim_lock&& other) noexcept : machine_{other.machine_} {}
    sim_lock& operator=(sim_lock&&) noexcept { return *this; }

    [[nodiscard]] guard hold() const { return guard{*this}; }

private:
    using node_lock = std::unique_lock<std::mutex>;

    /// Counts the calling thread as waiting for the lock as long as this object exists.
    struct waiter {
        explicit waiter(unsigned& n) : count{++n} {}
        waiter(waiter const&)            = delete;
        waiter& operator=(waiter const&) = delete;
        ~waiter() { --count; }

        unsigned& count;
    };

    /// Returns the state of the calling thread if its calls take simulated time, else null. Also
    /// returns null inside the effect of an operation, such as the body of a kernel.
    [[nodiscard]] sim_host* me() const {
        return detail::inside_effect ? nullptr : detail::self(machine_->id).host;
    }
    /// Returns the state of the `sim_thread` `self`, or of the calling thread if `self` is null.
    [[nodiscard]] sim_host& state_of(sim_host* self) const {
        return self != nullptr ? *self : machine_->caller();
    }

    void take() const {
        sim_host* const self = me();
        node_lock       held{machine_->mutex};
        if (taken_) { await(held, self); }
        try {
            follow(detail::inside_effect ? nullptr : &state_of(self));
        } catch (...) {
            // This thread does not take the lock, so another waiting thread may take it.
            wake(machine_->schedule.now());
            throw;
        }
        taken_   = true;
        outside_ = self == nullptr;
    }
    /// Records that the new holder `h` follows the earlier holders. Records no order if `h` is
    /// null, which means that a kernel or a host function of a stream takes the lock.
    void follow(sim_host* h) const {
        // True if `h` also held the lock last. `h` then already follows the earlier holders, but
        // perhaps only by a call of a resource, on which the program must not rely.
        bool const same = h != nullptr && h == holder_;
        if (h != nullptr && !(same && (in_program_ || in_resource_call()))) {
            machine_->acquire(*h, vclock_);
            in_program_ = !in_resource_call();
        }
        holder_ = machine_->checker.on().races ? h : nullptr;
        if (!same) { released_ = 0; }
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

    /// Releases the lock. Adds the holder's work to `vclock_`, for the next holder.
    void let_go() const noexcept {
        try {
            node_lock const held{machine_->mutex};
            sim_host* const self = me();
            taken_               = false;
            wake(self != nullptr ? self->clock : machine_->schedule.now());
            // The lock was released first (`taken_` is false), because the call below may throw.
            try {
                add_work(self);
            } catch (...) {
                machine_->checker.lose_order();
                throw;
            }
        } catch (...) {
            // The order of the holders could not be stored. From now on, no races are reported.
            report_caught({.kind = error_kind::platform_error,
                           .call = "releasing a lock of the simulated device"});
        }
    }
    /// Adds the work of the holder, which is the calling thread, to `vclock_`. `self` is its state
    /// in simulated time, or null. In a host function, adds the work before that function instead.
    void add_work(sim_host* self) const {
        if (detail::inside_effect) {
            // The body of a kernel has no vector clock: its release of the lock orders nothing.
            if (detail::effect_vclock != nullptr) { vclock_.join(*detail::effect_vclock); }
            return;
        }
        sim_host& h = state_of(self);
        // Returns early if the holder has made no new step since its last release of the lock:
        // `vclock_` then already includes all of the holder's work.
        if (&h == holder_ && h.vclock[h.slot] == released_) { return; }
        vclock_.join(h.vclock);
        h.advance();
        released_ = h.vclock[h.slot];
    }
    void wake(sim_time when) const noexcept {
        if (waiting_ == 0) { return; }
        machine_->turns.wake_waiters(this, when);
        free_.notify_one();
    }

    sim_machine* machine_;
    mutable bool taken_ = false;
    /// True if the lock was last taken outside simulated time, for example by an ordinary thread.
    mutable bool                    outside_ = false;
    mutable unsigned                waiting_ = 0;
    mutable std::condition_variable free_; ///< wakes waiting threads that are no `sim_thread`
    mutable vector_clock            vclock_;
    /// The thread that held the lock last. Null if the lock was taken inside the effect of an
    /// operation (such as the body of a kernel), or if races are not checked.
    mutable sim_host const* holder_ = nullptr;
    /// True if the program's own calls order `holder_` after the earlier holders. False if only a
    /// call of a resource, such as a pool, does so: the program must not rely on that order.
    mutable bool in_program_ = false;
    /// Counter of the thread `holder_` in its own vector clock, after its last release of the lock.
    /// 0 if it has not released the lock since another thread held it.
    mutable std::uint64_t released_ = 0;
};

} // namespace detail
} // namespace vram
