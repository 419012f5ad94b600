// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `quiet_core` selects a core for a turn that no other program uses at that time.

#include "timing.hpp" // clock, ns_since, keep

#include <algorithm> // max, min, sort
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <utility>   // pair
#include <vector>
#if defined(__linux__)
#include <sched.h> // sched_getaffinity, sched_setaffinity
#endif

namespace bench {

/// The cores of a virtual machine are threads of real cores, and another program on the second
/// thread of a core takes up to half of its speed, for minutes. So before a turn the calling thread
/// moves to a core on which a loop is nearly as fast as ever, and a measurement that was disturbed
/// is repeated. All subjects are treated alike. Nothing happens if cores cannot be chosen.
///
/// Cost      1 ms if the core is good; otherwise part of that for each core. `quietly` adds 1 ms
///           for each try.
class quiet_core {
public:
    /// Returns the object of this program, which knows the best speed of a core.
    static quiet_core& here() {
        static quiet_core only;
        return only;
    }

    quiet_core() {
#if defined(__linux__)
        known_ = sched_getaffinity(0, sizeof all_, &all_) == 0;
        for (int i = 0; known_ && i < CPU_SETSIZE; ++i) {
            if (CPU_ISSET(i, &all_)) { cores_.push_back(i); }
        }
#endif
    }
    quiet_core(quiet_core&&) = delete;
    ~quiet_core() { leave(); }

    /// Moves to a good core, or else to the best one. Returns the nanoseconds of the loop there.
    double go() {
        if (cores_.size() < 2) { return 0; }
        if (best_ == unknown) { look_at_all(); }
        (void)stay_on(cores_[at_]); // core of the last turn
        double      least = probe();
        std::size_t found = at_;
        for (std::size_t i = 1; i <= cores_.size() && least > enough * best_; ++i) {
            at_ = (at_ + 1) % cores_.size();
            if (!stay_on(cores_[at_])) { continue; }
            double const now = probe();
            if (now < least) {
                least = now;
                found = at_;
            }
        }
        at_ = found;
        (void)stay_on(cores_[at_]);
        return least;
    }
    /// Returns the result of `measure()` on a core that is good before and after. Otherwise the
    /// measurement is repeated a few times, and the result at the best time counts.
    template <class Measure>
    double quietly(Measure const& measure) {
        if (cores_.size() < 2) { return measure(); }
        double least = unknown;
        double best  = 0;
        int    tries = 0;
        do {
            double const before = go();
            double const given  = measure();
            double const after  = probe();
            if (double const noise = std::max(before, after); noise < least) {
                least = noise;
                best  = given;
            }
        } while (++tries != most_tries && least > enough * best_);
        return best;
    }
    /// Returns the quietest cores, one for each thread, without the calling thread's; empty if
    /// there are fewer.
    std::vector<int> quietest(std::size_t count) {
        if (cores_.size() < std::max<std::size_t>(count, 2)) { return {}; }
        std::vector<std::pair<double, int>> by_noise;
        for (int const core : cores_) {
            by_noise.emplace_back(stay_on(core) ? probe() : unknown, core);
        }
        leave();
        std::sort(by_noise.begin(), by_noise.end());
        std::vector<int> out;
        for (std::size_t i = 0; i != count; ++i) { out.push_back(by_noise[i].second); }
        return out;
    }
    /// Binds the calling thread to that core. Returns true on success.
    [[nodiscard]] static bool stay_on([[maybe_unused]] int core) noexcept {
#if defined(__linux__)
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0;
#else
        return false;
#endif
    }
    /// Permits all cores again.
    void leave() noexcept {
#if defined(__linux__)
        if (known_) { (void)sched_setaffinity(0, sizeof all_, &all_); }
#endif
    }

private:
    static constexpr double enough     = 1.04;
    static constexpr double unknown    = 1e18;
    static constexpr int    most_tries = 3;

    void look_at_all() {
        for (int const core : cores_) {
            if (stay_on(core)) { (void)probe(); }
        }
    }
    /// Returns the nanoseconds of a loop that keeps a core busy: four chains of look-ups and
    /// multiplications. All runs count, because the other thread of the core may work
    /// intermittently.
    double probe() {
        auto const    start    = clock::now();
        std::uint64_t chain[4] = {1, 2, 3, 4};
        for (int i = 0; i != 400'000; ++i) {
            for (std::uint64_t& c : chain) {
                c = c * 6364136223846793005U + table_[c >> 55U];
                if ((c & 3U) == 0) { c ^= c >> 31U; }
            }
        }
        table_[0] += chain[0] ^ chain[1] ^ chain[2] ^ chain[3];
        keep(table_.data());
        double const spent = ns_since(start);
        best_              = std::min(best_, spent);
        return spent;
    }

    std::vector<int>           cores_;
    std::size_t                at_    = 0;
    double                     best_  = unknown; ///< best time of the loop on any core
    std::vector<std::uint64_t> table_ = std::vector<std::uint64_t>(512, 7);
#if defined(__linux__)
    cpu_set_t all_{};
    bool      known_ = false;
#endif
};

} // namespace bench
