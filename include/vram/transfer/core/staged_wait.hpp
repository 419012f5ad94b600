// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staged_wait` is the lock of a loader or an unloader, and the ways in which their threads wait.

#include <vram/base/core/durations.hpp>  // microseconds, nanoseconds, seconds
#include <vram/base/core/gate.hpp>       // the gate of platforms where time is real
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/concepts/completion_flags.hpp>
#include <vram/transfer/core/pinned_slot.hpp>
#include <vram/transfer/core/wake_rules.hpp> // waiting_threads
#include <vram/transfer/platform_clock.hpp>

#include <cstddef>
#include <cstdint>
#include <thread> // this_thread
#include <utility>

namespace vram {
namespace detail {

/// The lock of a loader or an unloader, with a condition variable and the functions by which its
/// threads wait for copies. A waiting thread polls the completion flag of the oldest copy, or
/// sleeps until notified. After one second without progress, the thread queries the events of the
/// copies, because a failed device reports no ends.
///
/// Threads   Any number of threads.
template <class Platform>
class staged_wait {
public:
    using gate   = typename Platform::gate;
    using guard  = decltype(std::declval<gate&>().hold());
    using clock  = platform_clock<Platform>;
    using pinned = pinned_slot<Platform>;

    /// How long a thread, if it can poll, polls for a notification before it sleeps: about the time
    /// of a small batch.
    static constexpr std::chrono::microseconds spin{100};
    /// True if the platform's threads can poll; threads of the simulated device cannot.
    static constexpr bool spins =
        requires(gate& g, guard& held, bool (*ready)()) { g.wait_awake(held, spin, ready); };

    [[nodiscard]] guard hold() { return gate_.hold(); }
    /// Wakes all waiting threads. Each then tests the condition for which it waits.
    void notify() noexcept { gate_.notify(); }
    /// Makes the threads that poll test their conditions again at once. Does not wake sleeping
    /// threads.
    void notify_awake() noexcept {
        if constexpr (spins) { gate_.notify_awake(); }
    }
    /// Returns the numbers of threads that wait in `wait_for_copies` and `wait_eagerly`. The lock
    /// must be held.
    [[nodiscard]] waiting_threads const& waiting() const noexcept { return waiting_; }

    /// Sleeps until `ready()` returns true, which is tested after each `notify`. The lock `held` is
    /// released during the sleep, and held during each test.
    template <class Ready>
    void wait(guard& held, Ready const& ready) {
        gate_.wait(held, ready);
    }
    /// Polls for up to `spin` if threads can, then sleeps, with `held` unlocked, until `ready()` or
    /// for about `most` (0: no limit). Returns the last result of `ready()`.
    template <class Ready>
    bool wait_at_most(guard& held, std::chrono::nanoseconds most, Ready const& ready) {
        if constexpr (spins) {
            if (gate_.wait_awake(held, spin, ready)) { return true; }
        }
        if (most.count() == 0) {
            sleep(held, ready);
            return true;
        }
        if constexpr (requires(gate& g) { g.wait_at_most(held, most, ready); }) {
            return gate_.wait_at_most(held, most, ready);
        } else {
            return gate_.wait_for(held, most, ready);
        }
    }

    /// Waits, with the lock `held` released, until `ready()` (called with the lock) returns true.
    /// While copies with completion flags are in progress, one waiting thread polls the flags; the
    /// others sleep.
    template <class Copies, class Ready>
    void wait_for_copies(guard& held, Copies& copies, Ready const& ready) {
        run(held, copies, ready,
            [&](auto const& enough, std::uint64_t) { gate_.wait(held, enough); });
    }
    /// Waits as `wait_for_copies` does, and returns the nanoseconds. Where threads can poll, they
    /// poll first if no copy is in progress: all briefly, then one with pauses, for up to a second
    /// while `wanted()`.
    template <class Copies, class Ready, class Wanted>
    std::uint64_t wait_eagerly(guard& held, Copies& copies, Ready const& ready,
                               Wanted const& wanted) {
        return run(held, copies, ready, [&](auto const& enough, std::uint64_t since) {
            auto const backs_off = [&] {
                return spins && !waiting_.backing_off && wanted() &&
                       clock::now() - since < watchdog_ns;
            };
            if (poll(held, enough)) { return; }
            while (!enough() && backs_off()) { nap(held, enough, since); }
            sleep(held, [&] { return enough() || backs_off(); });
        });
    }

private:
    /// Time after which a waiting thread queries the events of the copies, because a failed device
    /// calls no callbacks and writes no flags.
    static constexpr std::chrono::seconds watchdog{1};
    static constexpr std::uint64_t        watchdog_ns = std::chrono::nanoseconds{watchdog}.count();

    /// Waits until `ready()` returns true, and returns the nanoseconds. While no copy is in
    /// progress, it waits by `rest(enough, since)`, which must return once `enough()` is true;
    /// `since` is the start of the wait.
    template <class Copies, class Ready, class Rest>
    std::uint64_t run(guard& held, Copies& copies, Ready const& ready, Rest const& rest) {
        if (ready()) { return 0; }
        copies.complete_flagged();
        if (ready()) { return 0; }
        auto const    since      = clock::now();
        std::uint64_t last_query = since;
        // Number (`pinned_slot::sequence`) of the copy that this thread polled last; 0 before. A
        // copy polled for the first time is polled without sleeping, later with.
        std::uint64_t last_polled = 0;
        ++waiting_.idle;
        while (!ready()) {
            if (should_poll(copies)) {
                poll_flag(held, copies, ready, last_query, last_polled);
            } else if (copies.in_progress() != 0) {
                if (!gate_.wait_for(held, watchdog,
                                    [&] { return ready() || should_poll(copies); })) {
                    check_copies(held, copies);
                }
            } else {
                rest([&] { return ready() || copies.in_progress() != 0; }, since);
            }
        }
        --waiting_.idle;
        return clock::now() - since;
    }
    template <class Copies>
    void check_copies(guard& held, Copies& copies) {
        held.unlock();
        copies.check_copies();
        held = gate_.hold();
    }

    /// Polls until `ready()` returns true, at most for `spin`. Returns the last result, or false if
    /// threads cannot poll.
    template <class Ready>
    bool poll(guard& held, Ready const& ready) {
        if constexpr (spins) {
            ++waiting_.awake;
            bool const came = gate_.wait_awake(held, spin, ready);
            --waiting_.awake;
            return came;
        } else {
            return false;
        }
    }
    /// Sleeps until `ready()` returns true; the caller has polled for `spin` before. On the
    /// simulated device, where threads cannot poll, waking within `spin` takes no simulated time
    /// instead.
    template <class Ready>
    void sleep(guard& held, Ready const& ready) {
        wait_after_polls(gate_, held, ready, spin);
    }
    /// Sleeps for an eighth of the time since the wait began (`since`), at least 20 us and at most
    /// 1 ms. Returns earlier if a notification finds `ready()` true.
    template <class Ready>
    void nap(guard& held, Ready const& ready, std::uint64_t since) {
        constexpr std::uint64_t least = 20'000, most = 1'000'000;
        std::uint64_t const pause = larger_of(least, smaller_of((clock::now() - since) / 8, most));
        waiting_.backing_off      = true;
        ++waiting_.awake;
        gate_.wait_for(held, std::chrono::nanoseconds{pause}, ready);
        --waiting_.awake;
        waiting_.backing_off = false;
    }
    /// Returns true if the calling thread should poll: a copy with a completion flag is in
    /// progress, and no thread polls.
    template <class Copies>
    [[nodiscard]] bool should_poll(Copies& copies) {
        if constexpr (completion_flags<Platform>) {
            return !waiting_.polling && copies.oldest_flagged() != nullptr;
        } else {
            return false;
        }
    }
    /// Waits briefly for the completion flag of the oldest copy, and records that copy's end.
    /// Otherwise queries the events of all copies, once per second (`last_query`). `last_polled`:
    /// number of the copy polled last.
    template <class Copies, class Ready>
    void poll_flag(guard& held, Copies& copies, Ready const& ready, std::uint64_t& last_query,
                   std::uint64_t& last_polled) {
        pinned&             p     = *copies.oldest_flagged();
        std::uint64_t const which = p.copy_number;
        waiting_.polling          = true;
        ++waiting_.awake;
        bool const first = std::exchange(last_polled, p.sequence) != p.sequence;
        bool const over  = await_flag(held, p, first, ready);
        --waiting_.awake;
        waiting_.polling = false;
        if (over) {
            if (p.now == pinned::state::copying && p.copy_number == which) { copies.complete(p); }
        } else if (clock::now() - last_query > watchdog_ns) {
            last_query = clock::now();
            check_copies(held, copies);
        }
        if (waiting_.idle > 1 && (over || ready())) { gate_.notify(); }
    }

    /// Returns true if the completion flag of `p` is written. Waits for it up to 50 us (20 us
    /// unless `eager`; 1 s on the simulated device); while asleep, `ready()` ends the wait.
    template <class Ready>
    [[nodiscard]] bool await_flag(guard& held, pinned const& p, bool eager, Ready const& ready) {
        constexpr std::uint64_t most  = 30'000; // nanoseconds of polling without sleep
        constexpr auto          pause = std::chrono::microseconds{20};
        // Read before the lock is released, because other threads may then change `p`.
        std::uint32_t* const flag  = p.flag;
        std::uint64_t const  which = p.copy_number;
        auto const           over  = [&] { return pinned::flag_reached(flag, which); };
        if constexpr (requires(gate& g) { g.wait_for_word(held, watchdog, flag, ready); }) {
            gate_.wait_for_word(held, watchdog, flag, [&] { return over() || ready(); });
        } else {
            held.unlock();
            auto const begun = clock::now();
            while (eager && !over() && clock::now() - begun < most) { std::this_thread::yield(); }
            held = gate_.hold();
            if (!over()) { gate_.wait_for(held, pause, ready); }
        }
        return over();
    }

    gate            gate_;
    waiting_threads waiting_;
};

} // namespace detail
} // namespace vram
