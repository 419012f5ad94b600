// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/process_fence.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <atomic>

using namespace vram;
using namespace vram::detail;

TEST_CASE(
    "process_fence: if two threads store and then load, at least one sees the other's store") {
    if (!process_fence::available()) { return; }
    constexpr int    rounds = 2000;
    std::atomic<int> often{0}, rarely{0}, turn{0};
    int              both_blind = 0;
    int              often_saw  = 0;
    worker const     frequent{0, [&] {
                              for (int i = 1; i <= rounds; ++i) {
                                  while (turn.load() < i) {}
                                  often.store(i, std::memory_order_relaxed);
                                  std::atomic_signal_fence(std::memory_order_seq_cst);
                                  often_saw = rarely.load(std::memory_order_relaxed);
                                  turn.store(-i);
                                  while (turn.load() == -i) {}
                              }
                          }};
    for (int i = 1; i <= rounds; ++i) {
        turn.store(i);
        rarely.store(i, std::memory_order_relaxed);
        process_fence::make();
        int const saw = often.load(std::memory_order_relaxed);
        while (turn.load() != -i) {}
        both_blind += saw != i && often_saw != i;
        turn.store(0);
    }
    CHECK(both_blind == 0);
}
