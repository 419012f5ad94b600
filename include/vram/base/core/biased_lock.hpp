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

/// A lock for very short critical sections. The first thread that locks gets the *bias*: it takes
/// the lock by a plain store to a flag. When another thread locks, the bias ends, and all threads
/// take the lock by an atomic exchange. The first thread gets the bias back after it has locked
/// many times in a row. Without `process_fence`, no thread gets the bias.
///
/// Threads   The lock must not be moved while a thread holds it or waits for it.
/// Cost      A waiting thread polls. The holder of the lock must not call an upstream resource or
///           wait.
class biased_lock {
public:
    /// Holds the lock until the guard is destroyed or `unlock()` is called. If `owns_lock()`
    /// returns false, the guard does not hold the lock: `hold_by_bias` can return such a guard. The
    /// functions are inlined, so that the compiler keeps the guard in registers.
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
        /// Returns true if the lock was taken by a plain store, and false if it was taken by an
        /// atomic exchange. The guard must hold the lock.
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
        /// The flag that was set to take the lock, and that `unlock()` sets to false: `inside_`
        /// after a plain store, `taken_` after an atomic exchange.
        std::atomic<bool>* flag_ = nullptr;
    };

    biased_lock() = default;
    biased_lock(biased_lock&&) noexcept {}
    biased_lock& operator=(biased_lock&&) noexcept { return *this; }

    [[nodiscard, gnu::always_inline]] guard hold() const noexcept { return guard{*this}; }
    /// Takes the lock if the calling thread has the bias (it may lock by a plain store). Otherwise
    /// the returned guard does not hold the lock: its `owns_lock()` returns false.
    [[nodiscard, gnu::always_inline]] guard hold_by_bias() const noexcept {
        return guard{*this, guard::only_by_bias{}};
    }

private:
    enum class use : unsigned char {
        /// The thread `first_` has the bias: it locks by a plain store. Another thread must first
        /// end the bias. If `first_` is null, no thread has locked yet.
        alone,
        /// A thread is ending the bias. It waits while the thread `first_` holds the lock.
        ending,
        /// No thread has the bias: every thread takes the lock by an atomic exchange.
        shared,
    };

    /// Takes the lock. Returns true if it was taken by a plain store, and false if it was taken by
    /// an atomic exchange.
    [[nodiscard, gnu::always_inline]] bool take() const noexcept {
        return take_by_bias() || take_with_others();
    }
    [[nodiscard, gnu::always_inline]] bool take_by_bias() const noexcept {
        if (first_.load(std::memory_order_relaxed) == &detail::locks_held) [[likely]] {
            inside_.store(true, std::memory_order_relaxed);
            // `use_` must be read after the store to `inside_`. A compiler fence is enough here,
            // because `share()` makes a CPU fence in all threads by `process_fence::make()`.
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
    /// Tries to take the lock by an atomic exchange. Returns false if another thread holds the
    /// lock, or if the state `use_` is not `use::shared`.
    bool try_take() const noexcept {
        if (taken_.exchange(true, std::memory_order_acquire)) { return false; }
        // If the state is not `use::shared` any more, the attempt fails. The thread `first_` may
        // then hold the lock by a plain store, although `taken_` was false.
        if (use_.load(std::memory_order_acquire) == use::shared) [[likely]] { return true; }
        taken_.store(false, std::memory_order_release);
        return false;
    }
    /// Called after the calling thread took the lock by an atomic exchange. Counts how often in a
    /// row this was the thread `first_`. At the count `enough_`, the thread `first_` gets the bias
    /// back: it may lock by a plain store again.
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
    /// Ends the bias of the thread `first_`: all threads then lock by an atomic exchange. If this
    /// thread holds the lock now, waits until it has unlocked. Later, `count()` may give the bias
    /// back.
    void share() const noexcept {
        if (first_.load(std::memory_order_relaxed) != nullptr) {
            use_.store(use::ending, std::memory_order_relaxed);
            process_fence::make();
            // Waits while the thread `first_` holds the lock. If that thread is just about to take
            // the lock, the process fence leaves two cases: it reads `use::ending` and does not
            // lock, or this loop reads `inside_` as true.
            for (waiting a_little; inside_.load(std::memory_order_acquire); a_little()) {}
        }
        use_.store(use::shared, std::memory_order_release);
    }
    /// Function object for a loop that polls the lock. Each call pauses the thread, twice as long
    /// as the call before. After nine calls, each call yields the CPU core instead.
    class waiting {
    public:
        void operator()() noexcept {
            if (pauses_ > 256) { return yield(); }
            for (unsigned i = 0; i < pauses_; ++i) { pause(); }
            pauses_ *= 2;
        }

    private:
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

    /// Identifies the thread that has the bias, or had it last, by the address of the thread's
    /// variable `locks_held`. Null if no thread has had the bias yet.
    mutable std::atomic<unsigned const*> first_ = nullptr;
    mutable std::atomic<use>             use_   = use::alone;
    /// True while the thread `first_` holds the lock by the bias. Also true for a short time if an
    /// attempt of that thread to take the lock fails.
    mutable std::atomic<bool> inside_ = false;
    /// True while a thread holds the lock by an atomic exchange. Also true for a short time if an
    /// attempt to take the lock fails.
    mutable std::atomic<bool> taken_ = false;
    /// Number of times in a row that the thread `first_` took the lock by an atomic exchange. Set
    /// to 0 when another thread takes the lock, or when a thread had to wait for it.
    mutable unsigned in_a_row_ = 0;
    /// Value of `in_a_row_` at which the thread `first_` gets the bias back. The value is doubled
    /// each time, up to `most_in_a_row`, because it is slow to end a bias.
    mutable unsigned   enough_ = 1024;
    mutable std::mutex line_;
};

} // namespace detail
} // namespace vram
