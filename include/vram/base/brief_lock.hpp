// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `brief_lock` is a lock for what takes a few dozen instructions.

#include <vram/base/error.hpp>         // locks_held, tell_errors
#include <vram/base/process_fence.hpp> // process_fence

#include <atomic>  // atomic
#include <mutex>   // mutex, lock_guard
#include <utility> // exchange

#if __has_include(<sched.h>)
#include <sched.h> // sched_yield: <thread> would cost a third more to include
#else
#include <thread> // this_thread::yield
#endif

namespace vram {

/// A lock for bookkeeping. The first thread that takes it has it for itself, and takes and gives it
/// back by plain stores. When another thread comes that ends: it is taken by one exchange and given
/// back by one store, and of those who wait one watches and the others sleep. When the first has
/// taken it often in a row it has it for itself again; how often doubles with each time, up to a
/// million. As a member of something that moves, it is fresh in its new place.
///
/// After the biased locks of Kawachiya, Koseki and Onodera (2002), with a fence that only the
/// thread that ends it pays for (Dice, Huang, Yang, 2001), and a way back.
///
/// Threads   moving while another thread holds or awaits it is a broken contract of the owner
/// Cost      taking and giving back: plain stores for one thread, an exchange and a store for
///           several. Whoever waits keeps a core busy for some microseconds and then offers it to
///           other threads, so no call of an upstream or of the platform that waits is made with
///           it held
class brief_lock {
public:
    /// Holds the lock until it ends. All of it is inlined, so that a guard lives in registers.
    class [[nodiscard]] guard {
    public:
        [[gnu::always_inline]] explicit guard(brief_lock const& owner) noexcept : owner_{&owner} {
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
            detail::held_one();
        }
        [[gnu::always_inline]] void unlock() noexcept {
            bool const errors = detail::let_one_go();
            held_             = false;
            flag_->store(false, std::memory_order_release);
            if (errors) [[unlikely]] { detail::tell_errors(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }

    private:
        brief_lock const*  owner_;
        bool               held_ = false;
        std::atomic<bool>* flag_ = nullptr; ///< that says so
    };

    brief_lock() = default;
    brief_lock(brief_lock&&) noexcept {}
    brief_lock& operator=(brief_lock&&) noexcept { return *this; }

    [[nodiscard, gnu::always_inline]] guard hold() const noexcept { return guard{*this}; }

private:
    enum class use : unsigned char {
        alone,  ///< by `first_`, or by nobody yet
        ending, ///< another has come, who waits until `first_` is out
        shared,
    };

    /// Takes the lock. Whether as the thread that has it for itself.
    [[nodiscard, gnu::always_inline]] bool take() const noexcept {
        if (first_.load(std::memory_order_relaxed) == &detail::locks_held) [[likely]] {
            inside_.store(true, std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_seq_cst); // `share` makes it a real one
            if (use_.load(std::memory_order_relaxed) == use::alone) [[likely]] { return true; }
            inside_.store(false, std::memory_order_release);
        }
        return take_with_others();
    }
    [[gnu::noinline]] bool take_with_others() const noexcept {
        if (use_.load(std::memory_order_acquire) == use::shared && try_take()) {
            count();
            return false;
        }
        return await();
    }
    /// Takes the lock if it is free, and anybody's: it may have become that of `first_` meanwhile.
    bool try_take() const noexcept {
        if (taken_.exchange(true, std::memory_order_acquire)) { return false; }
        if (use_.load(std::memory_order_acquire) == use::shared) [[likely]] { return true; }
        taken_.store(false, std::memory_order_release);
        return false;
    }
    /// Who has taken the lock among others may be `first_`, and alone for some time now. As long as
    /// it holds the lock it does so as one of them.
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
    /// From here on the lock is anybody's. Either `first_` sees that it ends, or we see that it is
    /// inside.
    void share() const noexcept {
        if (first_.load(std::memory_order_relaxed) != nullptr) {
            use_.store(use::ending, std::memory_order_relaxed);
            process_fence::make();
            for (waiting a_little; inside_.load(std::memory_order_acquire); a_little()) {}
        }
        use_.store(use::shared, std::memory_order_release);
    }
    /// Waits longer each time. Whoever holds the lock for so long has lost its core, perhaps to us.
    class waiting {
    public:
        void operator()() noexcept {
            if (pauses_ > 256) { return yield(); }
            for (unsigned i = 0; i < pauses_; ++i) { pause(); }
            pauses_ *= 2;
        }

    private:
        /// Tells the core that it is waiting, so that its twin and the bus are spared.
        static void pause() noexcept {
#if defined __x86_64__
            __builtin_ia32_pause();
#elif defined __aarch64__
            asm volatile("yield");
#endif
        }

        /// Offers the core to other threads.
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

    mutable std::atomic<unsigned const*> first_  = nullptr; ///< names a thread by what lies there
    mutable std::atomic<use>             use_    = use::alone;
    mutable std::atomic<bool>            inside_ = false; ///< `first_` holds it
    mutable std::atomic<bool>            taken_  = false; ///< somebody holds it, since it is shared
    mutable unsigned                     in_a_row_ = 0; ///< `first_` has taken it from nobody else
    mutable unsigned                     enough_   = 1024; ///< of those
    mutable std::mutex                   line_;
};

} // namespace vram
