// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/frame_rule.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using vram::detail::frame_rule;

TEST_CASE("frame_rule: an address of no function has no rule") {
    CHECK(frame_rule::of(reinterpret_cast<void const*>(std::uintptr_t{0x10})) == frame_rule{});
    CHECK(frame_rule{}.from == frame_rule::base::unknown);
}

#if defined __x86_64__ && defined __linux__ && __has_include(<unwind.h>)
namespace frame_rule_test {

/// The rule of a function, and the return address of it that the rule gives. With a saved rbp also
/// that of the caller.
struct outcome {
    frame_rule  rule;
    void const* found;
    void const* rbp;
};

/// Applies the rule of the caller.
[[gnu::noinline, gnu::no_sanitize_address]] outcome apply() {
    auto const* const frame = static_cast<void const* const*>(__builtin_frame_address(0));
    outcome           made{frame_rule::of(frame[1]), nullptr, nullptr};
    if (made.rule.from < frame_rule::base::stack_pointer) { return made; }
    auto const base = reinterpret_cast<std::uintptr_t>(
        made.rule.from == frame_rule::base::stack_pointer ? frame + 2 : frame[0]);
    std::uintptr_t end = base + static_cast<std::size_t>(made.rule.size);
    if (made.rule.from == frame_rule::base::stored) {
        end = *reinterpret_cast<std::uintptr_t const*>(end);
    }
    made.found = *reinterpret_cast<void const* const*>(end - sizeof(void*));
    if (made.rule.saved != frame_rule::place::in_rbp) {
        auto const saved = made.rule.saved == frame_rule::place::from_end
                               ? end
                               : reinterpret_cast<std::uintptr_t>(frame[0]);
        made.rbp =
            *reinterpret_cast<void const* const*>(saved + static_cast<std::size_t>(made.rule.rbp));
    }
    return made;
}
volatile int kept_alive = 0;

[[gnu::noinline]] bool fixed_size() {
    outcome const o = apply();
    kept_alive      = kept_alive + 1;
    return o.found == __builtin_return_address(0);
}
[[gnu::noinline]] bool size_of_argument(std::size_t bytes) {
    static_cast<char volatile*>(__builtin_alloca(bytes))[0] = 1;
    outcome const o                                         = apply();
    kept_alive                                              = kept_alive + 1;
    return o.rule.from == frame_rule::base::rbp && o.found == __builtin_return_address(0);
}
/// A function that aligns its stack.
[[gnu::noinline]] bool aligned() {
    alignas(256) char volatile bulk[256]; // NOLINT
    bulk[0]         = 1;
    outcome const o = apply();
    kept_alive      = kept_alive + bulk[0];
    return o.found == __builtin_return_address(0);
}
/// A function that aligns its stack, and whose frame has no fixed size. With g++ the address of the
/// end of the frame is stored in memory.
[[gnu::noinline]] outcome aligned_with_argument(std::size_t bytes, void const*& caller) {
    alignas(256) char volatile bulk[256]; // NOLINT
    bulk[0]                                                 = 1;
    static_cast<char volatile*>(__builtin_alloca(bytes))[0] = 1;
    outcome const o                                         = apply();
    kept_alive                                              = kept_alive + bulk[0];
    caller                                                  = __builtin_return_address(0);
    return o;
}
TEST_CASE("frame_rule: it leads to the return address of a function, also with alloca") {
    CHECK(fixed_size());
    CHECK(size_of_argument(16));
    CHECK(size_of_argument(5000));
    CHECK(aligned());
}

TEST_CASE("frame_rule: it leads through a function that aligns its stack, and to the saved rbp") {
    void const* caller = nullptr;
    for (std::size_t const bytes : {16, 5000}) {
        outcome const o = aligned_with_argument(bytes, caller);
        CHECK(o.found == caller);
        CHECK(o.rbp == __builtin_frame_address(0)); // of this function: alloca gives it a frame
        CHECK(o.rule.saved != frame_rule::place::in_rbp);
#if !defined __clang__
        CHECK(o.rule.from == frame_rule::base::stored);
#endif
    }
}

} // namespace frame_rule_test
#endif
