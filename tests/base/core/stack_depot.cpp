// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/stack_depot.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using namespace vram::detail;

namespace {
void const* frame_at(std::uintptr_t address) { return reinterpret_cast<void const*>(address); }

volatile int frames_kept_alive = 0;

[[gnu::noinline]] stack_node const* deepest(unsigned frames) {
    stack_node const* const s = stack_walk::here(frames);
    frames_kept_alive         = frames_kept_alive + 1; // no tail call
    return s;
}
template <int Depth>
[[gnu::noinline]] stack_node const* descend_to(unsigned frames) {
    if constexpr (Depth == 0) {
        return deepest(frames);
    } else {
        stack_node const* const s = descend_to<Depth - 1>(frames);
        frames_kept_alive         = frames_kept_alive + 1;
        return s;
    }
}
// Two callers of one function, with frames of one size.
[[gnu::noinline]] stack_node const* caller_one(unsigned frames) {
    stack_node const* const s = descend_to<3>(frames);
    frames_kept_alive         = frames_kept_alive + 1;
    return s;
}
[[gnu::noinline]] stack_node const* caller_two(unsigned frames) {
    stack_node const* const s = descend_to<3>(frames);
    frames_kept_alive         = frames_kept_alive + 2;
    return s;
}
// Two callers of one function, which choose the size of its frame. The two frames together have one
// size. So with both callers `deepest` has the same place on the stack.
[[gnu::noinline]] stack_node const* of_size(std::size_t bytes) {
    auto* const bulk          = static_cast<char volatile*>(__builtin_alloca(bytes));
    bulk[0]                   = 1;
    stack_node const* const s = deepest(3);
    frames_kept_alive         = frames_kept_alive + bulk[0];
    return s;
}
[[gnu::noinline]] stack_node const* above_small(std::size_t bytes) {
    auto* const bulk          = static_cast<char volatile*>(__builtin_alloca(bytes));
    bulk[0]                   = 1;
    stack_node const* const s = of_size(64);
    frames_kept_alive         = frames_kept_alive + bulk[0];
    return s;
}
[[gnu::noinline]] stack_node const* above_large(std::size_t bytes) {
    auto* const bulk          = static_cast<char volatile*>(__builtin_alloca(bytes));
    bulk[0]                   = 1;
    stack_node const* const s = of_size(1024);
    frames_kept_alive         = frames_kept_alive + bulk[0];
    return s;
}
_Unwind_Reason_Code each_frame(_Unwind_Context* context, void* to) {
    auto const ip = _Unwind_GetIP(context);
    if (ip != 0) { static_cast<std::vector<void const*>*>(to)->push_back(frame_at(ip)); }
    return _URC_NO_REASON;
}
/// Calls itself through functions with frames of fixed size, of random size and aligned ones. At
/// the end compares a walk with that of the unwinder, from the caller of this function on.
[[gnu::noinline]] bool descend_at_random(std::minstd_rand& random, unsigned depth);
[[gnu::noinline]] bool random_size(std::minstd_rand& random, unsigned depth) {
    static_cast<char volatile*>(__builtin_alloca(1 + random() % 600))[0] = 1;
    bool const same   = descend_at_random(random, depth);
    frames_kept_alive = frames_kept_alive + 1;
    return same;
}
[[gnu::noinline]] bool aligned_frame(std::minstd_rand& random, unsigned depth) {
    alignas(64) char volatile bulk[64];
    bulk[0]           = 1;
    bool const same   = descend_at_random(random, depth);
    frames_kept_alive = frames_kept_alive + bulk[0];
    return same;
}
// With g++ the address of the end of such a frame is stored in memory.
[[gnu::noinline]] bool aligned_random_size(std::minstd_rand& random, unsigned depth) {
    alignas(64) char volatile bulk[64];
    bulk[0]                                                              = 1;
    static_cast<char volatile*>(__builtin_alloca(1 + random() % 600))[0] = 1;
    bool const same   = descend_at_random(random, depth);
    frames_kept_alive = frames_kept_alive + bulk[0];
    return same;
}
bool descend_at_random(std::minstd_rand& random, unsigned depth) {
    bool same = true;
    if (depth == 0) {
        stack_node const* const  s = stack_walk::here(12);
        std::vector<void const*> all;
        _Unwind_Backtrace(&each_frame, &all);
        // The first frame of both is this function, at two places.
        for (std::size_t i = 1; i < s->count; ++i) { same = same && s->frames()[i] == all[i]; }
        same = same && s->count == std::min<std::size_t>(12, all.size());
    } else {
        switch (random() % 5) {
        case 0: same = random_size(random, depth - 1); break;
        case 1: same = aligned_frame(random, depth - 1); break;
        case 2: same = aligned_random_size(random, depth - 1); break;
        default: same = descend_at_random(random, depth - 1); break;
        }
    }
    frames_kept_alive = frames_kept_alive + 1;
    return same;
}
/// Returns the time of 50 calls, the least of several turns.
template <class Walk>
std::chrono::nanoseconds time_of_50(Walk const& walk) {
    auto least = std::chrono::nanoseconds::max();
    for (int turn = 0; turn != 20; ++turn) {
        auto const start = std::chrono::steady_clock::now();
        for (int i = 0; i != 50; ++i) { walk(); }
        least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - start);
    }
    return least;
}
/// Returns the time of 50 walks in a function that aligns its stack and has no fixed size of frame.
[[gnu::noinline]] std::chrono::nanoseconds time_below_aligned(std::size_t bytes) {
    alignas(64) char volatile bulk[64];
    bulk[0]                                                 = 1;
    static_cast<char volatile*>(__builtin_alloca(bytes))[0] = 1;
    auto const time                                         = time_of_50([] { caller_one(12); });
    frames_kept_alive                                       = frames_kept_alive + bulk[0];
    return time;
}
_Unwind_Reason_Code to_the_ninth(_Unwind_Context*, void* seen) {
    auto& frames = *static_cast<std::vector<char>*>(seen);
    frames.push_back(0);
    return frames.size() == 9 ? _URC_END_OF_STACK : _URC_NO_REASON;
}
} // namespace

TEST_CASE("stack_depot: equal stacks are stored once") {
    void const* const a[] = {frame_at(1), frame_at(2), frame_at(3)};
    void const* const b[] = {frame_at(1), frame_at(2), frame_at(4)};
    auto const* const one = stack_depot::keep(a, 3);
    CHECK(stack_depot::keep(a, 3) == one);
    CHECK(stack_depot::keep(b, 3) != one);
    CHECK(stack_depot::keep(a, 2) != one);
    CHECK(one->count == 3);
    CHECK(one->frames()[2] == frame_at(3));
}

#if __has_include(<unwind.h>)
TEST_CASE("stack_walk: the frames are those of the callers, also when they are remembered") {
    stack_node const* seen[2][3]{};
    for (int i = 0; i != 3; ++i) {
        seen[0][i] = caller_one(6);
        seen[1][i] = caller_two(6);
    }
    REQUIRE(seen[0][0] != nullptr);
    CHECK(seen[0][0]->count == 6);
    CHECK(seen[0][0] == seen[0][1]);
    CHECK(seen[0][1] == seen[0][2]);
    CHECK(seen[1][0] == seen[1][1]);
    CHECK(seen[1][1] == seen[1][2]);
    // deepest, descend_to<0..3> have the same callers; the fifth address is in caller_one or _two.
    for (int i = 0; i != 4; ++i) { CHECK(seen[0][0]->frames()[i] == seen[1][0]->frames()[i]); }
    CHECK(seen[0][0]->frames()[5] != seen[1][0]->frames()[5]);
}

TEST_CASE("stack_walk: a function with a frame of no fixed size has the right caller") {
    stack_node const *small = nullptr, *large = nullptr;
    worker{0, [&] { small = above_small(1024); }}.join(); // walks of the unwinder
    worker{0, [&] { large = above_large(64); }}.join();
    REQUIRE(small != large);
    for (int i = 0; i != 3; ++i) {
        CHECK(above_small(1024) == small);
        CHECK(above_large(64) == large); // its frames cover return addresses of the other walk
    }
}

TEST_CASE("stack_walk: a walk has the frames of the unwinder, whatever was called before") {
    std::minstd_rand random{7};
    unsigned         wrong = 0;
    for (int i = 0; i != 3000; ++i) {
        if (!descend_at_random(random, 1 + static_cast<unsigned>(random() % 6))) { ++wrong; }
    }
    CHECK(wrong == 0);
}

TEST_CASE("stack_walk: the number of frames is bounded, and 0 frames are no stack") {
    CHECK(stack_walk::here(0) == nullptr);
    auto const* const all = descend_to<40>(1000);
    REQUIRE(all != nullptr);
    CHECK(all->count == stack_walk::most);
    CHECK(descend_to<2>(1)->count == 1);
    CHECK(descend_to<2>(2)->count == 2);
}

#if defined __x86_64__
TEST_CASE("stack_walk: walks by turns from two lines are remembered") {
    auto const one  = time_of_50([] { caller_one(8), caller_one(8); });
    auto const both = time_of_50([] { caller_one(8), caller_two(8); });
    CHECK(both < 4 * one); // 30 times if one line replaces the remembered walk of the other
    // A walk by the unwinder takes much longer than one that is remembered.
    std::vector<char> unwound;
    auto const        start = std::chrono::steady_clock::now();
    for (int i = 0; i != 50; ++i) { _Unwind_Backtrace(&to_the_ninth, &unwound), unwound.clear(); }
    std::chrono::nanoseconds const slow = std::chrono::steady_clock::now() - start;
    CHECK(one < slow);
}

TEST_CASE("stack_walk: walks through a function that aligns its stack are remembered") {
    auto const plain = time_of_50([] { caller_one(12); });
    CHECK(time_below_aligned(100) < 6 * plain); // 20 times with the unwinder
}
#endif
#endif
