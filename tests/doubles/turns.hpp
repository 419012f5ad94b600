// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `take_turns` lets several threads act one after another, in a random order.

#include <vram/base/core/worker.hpp>

#include <atomic> // atomic
#include <list>   // list

namespace doubles {

/// Calls `step` `left` times, on four threads by turns of up to 7 calls. Only one thread runs at
/// any time, so `step` may use anything without a lock. `random` chooses the turns.
template <class Random, class Step>
void take_turns(unsigned left, Random& random, Step const& step) {
    constexpr unsigned              threads = 4, none = threads;
    std::atomic<unsigned>           turn{0}; // the thread that acts
    std::list<vram::detail::worker> all;
    for (unsigned t = 0; t != threads; ++t) {
        all.emplace_back(0, [&, t] {
            for (;;) {
                unsigned now = turn.load();
                for (; now != t && now != none; now = turn.load()) { turn.wait(now); }
                if (now == none) { return; }
                for (auto n = random() % 8; left != 0 && n != 0; --n, --left) { step(); }
                turn = left != 0 ? static_cast<unsigned>(random() % threads) : none;
                turn.notify_all();
            }
        });
    }
    for (vram::detail::worker& each : all) { each.join(); }
}

} // namespace doubles
