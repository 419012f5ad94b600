// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `biased_lock` is a biased lock for critical sections of a few dozen instructions.

#include <vram/base/core/process_fence.hpp>
#include <vram/base/error.hpp> // locks_held, report_stored_errors

#include <atomic> // atomic
#include <mutex>  // mutex, lock_guard
#include <utility>

#if __has_include(<sched.h>)
#include <sched.h> // sched_yield: <thread> would cost a third more to include
#else
#include <thread> // this_thread::yield
#endif

namespace vram {
namespace detail {

/// A lock for short critical sections that is cheap for the one thread that uses it repeatedly. The
/// first thread that locks owns the *bias*: it locks and unlocks by plain stores (if
/// `process_fence` is available). If another thread locks, the bias is revoked: from then on each
/// thread locks by an atomic exchange and unlocks by a store. Of the waiting threads, one polls and
/// the others sleep. If the first thread then locks often enough in a row, while no thread waits,
/// it owns the bias again. The required number doubles each time, up to a million. A moved-to
/// object contains a new, unlocked lock.
///
/// After the biased locks of Kawachiya, Koseki and Onodera (2002), with a fence executed only by
/// the thread that revokes the bias (Dice, Huang, Yang, 2001). The bias can also return.
///
/// Threads   Any thread may lock. The object must not be moved while a thread holds the lock or
///           waits for it.
/// Cost      Locking and unlocking take plain stores for one thread, an exchange and a store for
///           several. A waiting thread occupies a core for some microseconds and then yields it. So
///           code under this lock calls no upstream, and no platform function that waits.
class biased_lock {
public:
    /// Locks in its constructor (except that of `hold_by_bias`, if the thread does not own the
    /// bias) and unlocks in its destructor. All functions are inlined, so that the compiler keeps a
    /// guard in registers.
    class [[nodiscard]] guard {
    public:
        [[gnu::always_inline]] explicit guard(biased_lock const& owner) noexcept : owner_{&owner} {
            lock();
        }
        [[gnu::always_inline]] guard(guard&& other) noexcept
            : owner_{other.owner_}, held_{std::exchange(other.held_, false)}, flag_{other.flag_} {}
        guard& operator=(guard&&) = delete;
        [[gnu::always_inline]] ~guard() {
            if (held_) { unlock(); }
        }

        [[gnu::always_inline]] void lock() noexcept {
            flag_ = owner_->take() ? &owner_->inside_ : &owner_->taken_;
            held_ = true;
            detail::count_lock();
        }
        [[gnu::always_inline]] void unlock() noexcept {
            bool const errors = detail::uncount_lock();
            held_             = false;
            flag_->store(false, std::memory_order_release);
            if (errors) [[unlikely]] { detail::report_stored_errors(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }
        /// Called while the guard holds the lock. Returns true if it was taken by plain stores, as
        /// only the thread that owns the bias can, and not by an atomic exchange.
        [[nodiscard]] bool by_bias() const noexcept { return flag_ == &owner_->inside_; }

    private:
        friend biased_lock;
        struct only_by_bias {};
        [[gnu::always_inline]] guard(biased_lock const& owner, only_by_bias) noexcept
            : owner_{&owner}, held_{owner.take_by_bias()}, flag_{&owner.inside_} {
            if (held_) { detail::count_lock(); }
        }

        biased_lock const* owner_;
        bool               held_ = false;
        /// If `held_`, the flag of the lock that `unlock` sets to false: `inside_` if the thread
        /// took the lock by its bias (by plain stores), otherwise `taken_`.
        std::atomic<bool>* flag_ = nullptr;
    };

    biased_lock() = default;
    biased_lock(biased_lock&&) noexcept {}
    biased_lock& operator=(biased_lock&&) noexcept { return *this; }

    [[nodiscard, gnu::always_inline]] guard hold() const noexcept { return guard{*this}; }
    /// Takes the lock only if the calling thread owns the bias (locks by plain stores). Otherwise
    /// returns a guard without the lock: test `owns_lock()` of the result.
    [[nodiscard, gnu::always_inline]] guard hold_by_bias() const noexcept {
        return guard{*this, guard::only_by_bias{}};
    }

private:
    enum class use : unsigned char {
        /// Only one thread, `first_`, takes the lock, and does so by plain stores (it owns the
        /// bias). Also the state of a lock that no thread has taken yet.
        alone,
        /// A second thread revokes the bias, so that `first_` uses no plain store any more: it
        /// waits until `first_` has unlocked.
        ending,
        /// The bias was revoked: each thread, also `first_`, takes the lock by an atomic exchange.
        shared,
    };

    /// Takes the lock. Returns true if the calling thread took it by its bias (by plain stores),
    /// and false if it took it by an atomic exchange.
    [[nodiscard, gnu::always_inline]] bool take() const noexcept {
        return take_by_bias() || take_with_others();
    }
    [[nodiscard, gnu::always_inline]] bool take_by_bias() const noexcept {
        if (first_.load(std::memory_order_relaxed) == &detail::locks_held) [[likely]] {
            inside_.store(true, std::memory_order_relaxed);
            // The compiler must keep the store above before the load below. If another thread
            // revokes the bias, its `process_fence::make()` orders the two for the CPU as well.
            std::atomic_signal_fence(std::memory_order_seq_cst);
            if (use_.load(std::memory_order_relaxed) == use::alone) [[likely]] { return true; }
            inside_.store(false, std::memory_order_release);
        }
        return false;
    }
    [[gnu::noinline]] bool take_with_others() const noexcept {
        if (use_.load(std::memory_order_acquire) == use::shared && try_take()) {
            count();
            return false;
        }
        return await();
    }
    /// Takes the lock by an atomic exchange and returns true. Returns false if another thread has
    /// taken the lock by an exchange, or if the bias is not revoked (the thread `first_` locks by
    /// plain stores): `first_` may have got the bias again after the caller's test of `use_`.
    bool try_take() const noexcept {
        if (taken_.exchange(true, std::memory_order_acquire)) { return false; }
        if (use_.load(std::memory_order_acquire) == use::shared) [[likely]] { return true; }
        taken_.store(false, std::memory_order_release);
        return false;
    }
    /// Called after an atomic exchange took the lock. Counts how often in a row the thread `first_`
    /// took the lock; another thread sets the count to 0. At `enough_`, which then doubles,
    /// `first_` owns the bias (locks by plain stores) from its next locking on.
    void count() const noexcept {
        if (first_.load(std::memory_order_relaxed) != &detail::locks_held) {
            if (in_a_row_ != 0) { in_a_row_ = 0; }
        } else if (++in_a_row_ == enough_) {
            in_a_row_ = 0;
            if (enough_ < most_in_a_row) { enough_ *= 2; }
            use_.store(use::alone, std::memory_order_relaxed);
        }
    }
    bool await() const noexcept {
        std::lock_guard const first_in_line{line_};
        if (use_.load(std::memory_order_relaxed) == use::alone) {
            if (first_.load(std::memory_order_relaxed) == nullptr && process_fence::available()) {
                inside_.store(true, std::memory_order_relaxed);
                first_.store(&detail::locks_held, std::memory_order_relaxed);
                return true;
            }
            share();
        }
        for (waiting a_little;; a_little()) {
            if (use_.load(std::memory_order_relaxed) == use::alone) { share(); }
            if (!taken_.load(std::memory_order_relaxed) && try_take()) { break; }
        }
        in_a_row_ = 0;
        return false;
    }
    /// Revokes the bias: from now on also `first_`, the thread that locks by plain stores, must
    /// lock by an atomic exchange. Returns once `first_` does not hold the lock. The fence orders
    /// the accesses of both threads: either `first_` reads `use::ending`, and then locks by an
    /// exchange, or this thread reads that `inside_` is true (`first_` holds the lock) and waits.
    /// If `first_` is null, no thread has locked yet, and there is no bias.
    void share() const noexcept {
        if (first_.load(std::memory_order_relaxed) != nullptr) {
            use_.store(use::ending, std::memory_order_relaxed);
            process_fence::make();
            for (waiting a_little; inside_.load(std::memory_order_acquire); a_little()) {}
        }
        use_.store(use::shared, std::memory_order_release);
    }
    /// Called between two attempts to take the lock. Each call pauses twice as long as the call
    /// before, up to 256 pause instructions. Further calls yield the core instead, because a thread
    /// that holds the lock for so long has probably been preempted, perhaps by this thread.
    class waiting {
    public:
        void operator()() noexcept {
            if (pauses_ > 256) { return yield(); }
            for (unsigned i = 0; i < pauses_; ++i) { pause(); }
            pauses_ *= 2;
        }

    private:
        /// Executes the CPU's instruction for polling loops, which leaves the execution units to
        /// the core's other hardware thread.
        static void pause() noexcept {
#if defined __x86_64__
            __builtin_ia32_pause();
#elif defined __aarch64__
            asm volatile("yield");
#endif
        }

        static void yield() noexcept {
#if __has_include(<sched.h>)
            sched_yield();
#else
            std::this_thread::yield();
#endif
        }

        unsigned pauses_ = 1;
    };

    static constexpr unsigned most_in_a_row = 1U << 20;

    /// Identifies the thread that may lock by plain stores (it owns the bias), or was the last that
    /// could: the address of its thread-local `locks_held`. Null if there was no such thread.
    mutable std::atomic<unsigned const*> first_ = nullptr;
    mutable std::atomic<use>             use_   = use::alone;
    /// True while the thread that owns the bias (`first_`) holds the lock, which it took by a plain
    /// store to this flag. Also true for a moment if that thread stores true and then finds that
    /// another thread is revoking the bias, or has revoked it.
    mutable std::atomic<bool> inside_ = false;
    /// The lock as all threads share it once the bias is revoked: a thread takes it by an atomic
    /// exchange with true, and releases it by a store. Also true for a moment in an attempt that
    /// fails, because `first_` owns the bias again.
    mutable std::atomic<bool> taken_ = false;
    /// Number of times in a row that the thread `first_` has taken the lock by an atomic exchange,
    /// without waiting for it. At `enough_`, `first_` may lock by plain stores again.
    mutable unsigned in_a_row_ = 0;
    /// Value of `in_a_row_` at which the thread `first_` owns the bias (locks by plain stores)
    /// again. It then doubles, up to `most_in_a_row`, because to revoke the bias costs a fence.
    mutable unsigned   enough_ = 1024;
    mutable std::mutex line_;
};

} // namespace detail
} // namespace vram
