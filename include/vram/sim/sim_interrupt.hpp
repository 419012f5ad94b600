// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_interrupt` calls a function of a test between any two calls of a thread.

#include <vram/base/requirements.hpp> // C++20

#include <cstdint>    // uint64_t
#include <functional> // function
#include <utility>    // exchange, move

namespace vram {

/// Calls `what()` once, before the `nth` call of the simulated machine that the calling thread
/// makes from here on (1: the next one), with no lock held: what another thread might do at that
/// moment. Calls that `what` makes are not counted.
///
///     sim_interrupt::before(3, [&] { sim_graph::begin(theirs); });
///     memory.deallocate(mine, p, bytes);
///     CHECK(sim_interrupt::end());         // it came to that call
///
/// Failure   what `what` throws, from the call
/// Threads   of this thread alone
/// Cost      a comparison per call
class sim_interrupt {
public:
    static void before(std::uint64_t nth, std::function<void()> what) {
        self() = {nth, std::move(what)};
    }
    /// Takes it back. Returns true if it has happened.
    static bool end() noexcept {
        bool const happened = self().calls_ == 0;
        self()              = {};
        return happened;
    }
    /// Counts a call.
    static void count() {
        sim_interrupt& mine = self();
        if (mine.calls_ != 0 && --mine.calls_ == 0) { std::exchange(mine.what_, nullptr)(); }
    }

private:
    sim_interrupt() = default;
    sim_interrupt(std::uint64_t nth, std::function<void()> what)
        : calls_{nth}, what_{std::move(what)} {}

    static sim_interrupt& self() noexcept {
        thread_local sim_interrupt mine;
        return mine;
    }

    std::uint64_t         calls_ = 0; ///< until then; 0: never
    std::function<void()> what_{};
};

} // namespace vram
