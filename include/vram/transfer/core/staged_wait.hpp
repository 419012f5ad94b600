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
/// sleeps until notified. If no copy ends for one second, the thread queries the events of the
/// copies, because a failed device runs no callbacks and writes no flags.
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
    /// Longest limit of a wait, 146 years. The end of a longer one might not fit in the clock.
    static constexpr std::chrono::nanoseconds longest = std::chrono::nanoseconds::max() / 2;
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
    /// Waits until `ready()` returns true, and returns the last result of `ready()`. Gives up after
    /// about the time `most`, unless `most` is 0 or more than `longest`. If threads can poll, polls
    /// for up to `spin` before it sleeps. The lock `held` is released during the wait.
    template <class Ready>
    bool wait_at_most(guard& held, std::chrono::nanoseconds most, Ready const& ready) {
        if constexpr (spins) {
            if (gate_.wait_awake(held, spin, ready)) { return true; }
        }
        if (most.count() == 0 || most > longest) {
            sleep(held, ready);
            return true;
        }
        if constexpr (requires(gate& g) { g.wait_at_most(held, most, ready); }) {
            return gate_.wait_at_most(held, most, ready);
        } else {
            return gate_.wait_for(held, most, ready);
        }
    }

    /// Waits until `ready()` returns true. The lock `held` is released during the wait, and held
    /// during each call of `ready`. While copies with completion flags are in progress, one waiting
    /// thread polls the flags; the others sleep.
    template <class Copies, class Ready>
    void wait_for_copies(guard& held, Copies& copies, Ready const& ready) {
        run(held, copies, ready,
            [&](auto const& enough, std::uint64_t) { gate_.wait(held, enough); });
    }
    /// Waits like `wait_for_copies`, and returns the waiting time in nanoseconds. While no copy is
    /// in progress, threads that can poll do so for up to `spin` before they sleep. If `wanted()`
    /// returns true, one thread polls with pauses instead of sleeping, up to one second after its
    /// wait began.
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
    /// Counts the calling thread in `count` as long as this object exists, also if a wait throws.
    struct counted {
        explicit counted(std::size_t& n) noexcept : count{++n} {}
        counted(counted const&) = delete;
        ~counted() { --count; }

        std::size_t& count;
    };
    /// `flag` is true as long as this object exists.
    struct raised {
        explicit raised(bool& one) noexcept : flag{one} { flag = true; }
        raised(raised const&) = delete;
        ~raised() { flag = false; }

        bool& flag;
    };

    /// Time after which a waiting thread queries the events of the copies, because a failed device
    /// calls no callbacks and writes no flags.
    static constexpr std::chrono::seconds watchdog{1};
    static constexpr std::uint64_t        watchdog_ns = std::chrono::nanoseconds{watchdog}.count();

    /// Waits until `ready()` returns true, and returns the waiting time in nanoseconds. While no
    /// copy is in progress, calls `rest(enough, since)`, which waits until `enough()` returns true.
    /// `enough()` returns true if `ready()` does, or if a copy is in progress. `since`: time when
    /// the wait began.
    template <class Copies, class Ready, class Rest>
    std::uint64_t run(guard& held, Copies& copies, Ready const& ready, Rest const& rest) {
        if (ready()) { return 0; }
        copies.complete_flagged();
        if (ready()) { return 0; }
        auto const    since      = clock::now();
        std::uint64_t last_query = since;
        // Value of `pinned_slot::sequence` of the copy that this thread polled last, or 0.
        std::uint64_t last_polled = 0;
        counted const idle{waiting_.idle};
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
            counted const awake{waiting_.awake};
            return gate_.wait_awake(held, spin, ready);
        } else {
            return false;
        }
    }
    /// Sleeps until `ready()` returns true. On the simulated device, where threads cannot poll, a
    /// wake-up in the first `spin` of the sleep takes no simulated time.
    template <class Ready>
    void sleep(guard& held, Ready const& ready) {
        wait_after_polls(gate_, held, ready, spin);
    }
    /// Sleeps for one eighth of the time since the wait began (`since`), but at least 20 us and at
    /// most 1 ms. Wakes earlier if another thread calls `notify` and `ready()` then returns true.
    template <class Ready>
    void nap(guard& held, Ready const& ready, std::uint64_t since) {
        constexpr std::uint64_t least = 20'000, most = 1'000'000;
        std::uint64_t const pause = larger_of(least, smaller_of((clock::now() - since) / 8, most));
        raised const        backing_off{waiting_.backing_off};
        counted const       awake{waiting_.awake};
        gate_.wait_for(held, std::chrono::nanoseconds{pause}, ready);
    }
    /// Returns true if the calling thread should poll completion flags: a copy with such a flag is
    /// in progress, and no other thread polls flags.
    template <class Copies>
    [[nodiscard]] bool should_poll(Copies& copies) {
        if constexpr (completion_flags<Platform>) {
            return !waiting_.polling && copies.oldest_flagged() != nullptr;
        } else {
            return false;
        }
    }
    /// Waits briefly for the completion flag of the oldest copy. If the flag is written, records
    /// that the copy is complete. Otherwise queries the events of all copies, but only if one
    /// second has passed since `last_query`. `last_polled`: number of the copy that this thread
    /// polled last.
    template <class Copies, class Ready>
    void poll_flag(guard& held, Copies& copies, Ready const& ready, std::uint64_t& last_query,
                   std::uint64_t& last_polled) {
        pinned&             p     = *copies.oldest_flagged();
        std::uint64_t const which = p.copy_number;
        bool                over  = false;
        {
            raised const  polling{waiting_.polling};
            counted const awake{waiting_.awake};
            bool const    first = std::exchange(last_polled, p.sequence) != p.sequence;
            over                = await_flag(held, p, first, ready);
        }
        if (over) {
            if (p.now == pinned::state::copying && p.copy_number == which) { copies.complete(p); }
        } else if (clock::now() - last_query > watchdog_ns) {
            last_query = clock::now();
            check_copies(held, copies);
        }
        if (waiting_.idle > 1 && (over || ready())) { gate_.notify(); }
    }

    /// Waits briefly for the completion flag of `p`. Returns true if the flag shows that the copy
    /// is complete. Polls first if `eager` is true, then sleeps for at most 20 us. The sleep ends
    /// early if `ready()` returns true. On the simulated device, sleeps for at most 1 s.
    template <class Ready>
    [[nodiscard]] bool await_flag(guard& held, pinned const& p, bool eager, Ready const& ready) {
        constexpr std::uint64_t most  = 30'000; // nanoseconds of polling without sleep
        constexpr auto          pause = std::chrono::microseconds{20};
        // Reads both members now, because other threads may change `p` once the lock is released.
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
