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

/// A lock for very short critical sections. The thread that locks first owns the *bias* (if
/// `process_fence` is available): it locks and unlocks by plain stores. When another thread locks,
/// the bias is revoked, and all threads lock by an atomic exchange.
///
/// Threads   The lock must not be moved while a thread holds or awaits it.
/// Cost      A waiting thread polls: call no upstream and no waiting platform function under the
///           lock.
class biased_lock {
public:
    /// Holds the lock until its destruction or `unlock()`. A guard that `hold_by_bias` returns may
    /// not hold it (see `owns_lock()`). Inlined, so that it stays in registers.
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
        /// Returns true if the thread took the lock by plain stores (owns the bias), not by an
        /// atomic exchange. Call only under the lock.
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
        /// The flag that `unlock()` sets to false: `inside_` if the lock was taken by plain stores,
        /// `taken_` if by an atomic exchange.
        std::atomic<bool>* flag_ = nullptr;
    };

    biased_lock() = default;
    biased_lock(biased_lock&&) noexcept {}
    biased_lock& operator=(biased_lock&&) noexcept { return *this; }

    [[nodiscard, gnu::always_inline]] guard hold() const noexcept { return guard{*this}; }
    /// Takes the lock if the calling thread can do so by plain stores (it owns the bias). Otherwise
    /// returns a guard without the lock: its `owns_lock()` returns false.
    [[nodiscard, gnu::always_inline]] guard hold_by_bias() const noexcept {
        return guard{*this, guard::only_by_bias{}};
    }

private:
    enum class use : unsigned char {
        /// Only the thread `first_` locks, by plain stores. If it is null, none has locked yet.
        alone,
        /// Another thread waits until `first_`, which locks by plain stores, has unlocked.
        ending,
        /// All threads take the lock by an atomic exchange.
        shared,
    };

    /// Takes the lock. Returns true if by plain stores, false if by an atomic exchange.
    [[nodiscard, gnu::always_inline]] bool take() const noexcept {
        return take_by_bias() || take_with_others();
    }
    [[nodiscard, gnu::always_inline]] bool take_by_bias() const noexcept {
        if (first_.load(std::memory_order_relaxed) == &detail::locks_held) [[likely]] {
            inside_.store(true, std::memory_order_relaxed);
            // A compiler fence is enough between the store to `inside_` and the load of `use_`: for
            // the CPU, `share()`, which revokes the bias, calls `process_fence::make()`.
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
    /// Tries to take the lock by an atomic exchange. Returns false if a thread holds it, or if
    /// `use_` is not `shared`.
    bool try_take() const noexcept {
        if (taken_.exchange(true, std::memory_order_acquire)) { return false; }
        // Since the caller read `use_`, the thread `first_` may have been allowed plain stores
        // again. It does not read `taken_`, so the exchange is undone.
        if (use_.load(std::memory_order_acquire) == use::shared) [[likely]] { return true; }
        taken_.store(false, std::memory_order_release);
        return false;
    }
    /// Counts how often in a row the thread `first_` locks by an exchange. After `enough_` times,
    /// lets it lock by plain stores again. The caller must hold the lock.
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
    /// Makes all threads lock by an atomic exchange, until `count()` allows plain stores again.
    /// Waits until `first_`, if not null, has unlocked.
    void share() const noexcept {
        if (first_.load(std::memory_order_relaxed) != nullptr) {
            use_.store(use::ending, std::memory_order_relaxed);
            process_fence::make();
            // After the fence, either `first_` reads `use::ending` and does not lock, or its store
            // to `inside_` is visible here, and this thread waits.
            for (waiting a_little; inside_.load(std::memory_order_acquire); a_little()) {}
        }
        use_.store(use::shared, std::memory_order_release);
    }
    /// Function object for a loop that polls the lock. Each call pauses, twice as long as the call
    /// before; after some calls, it yields the core instead.
    class waiting {
    public:
        void operator()() noexcept {
            if (pauses_ > 256) { return yield(); }
            for (unsigned i = 0; i < pauses_; ++i) { pause(); }
            pauses_ *= 2;
        }

    private:
        /// Executes the CPU's instruction for polling loops.
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

    /// The thread that may lock by plain stores, or last could: the address of its thread-local
    /// `locks_held`. Null if there was none yet.
    mutable std::atomic<unsigned const*> first_ = nullptr;
    mutable std::atomic<use>             use_   = use::alone;
    /// True while the thread `first_` holds the lock by a plain store. May also be true during its
    /// failed attempt to lock.
    mutable std::atomic<bool> inside_ = false;
    /// True while a thread holds the lock by an atomic exchange. May also be true during a failed
    /// attempt to lock.
    mutable std::atomic<bool> taken_ = false;
    /// Number of times in a row that the thread `first_` took the lock by an exchange, at its first
    /// attempt. At `enough_`, it may lock by plain stores again.
    mutable unsigned in_a_row_ = 0;
    /// Value of `in_a_row_` at which `first_` may lock by plain stores again. Doubled each time, up
    /// to a limit, because revoking that is slow.
    mutable unsigned   enough_ = 1024;
    mutable std::mutex line_;
};

} // namespace detail
} // namespace vram
