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

/// The rule of a function, and the return address of it that the rule gives.
struct outcome {
    frame_rule  rule;
    void const* found;
};

/// Applies the rule of the caller.
[[gnu::noinline, gnu::no_sanitize_address]] outcome apply() {
    auto const* const frame = static_cast<void const* const*>(__builtin_frame_address(0));
    outcome           made{frame_rule::of(frame[1]), nullptr};
    if (made.rule.from < frame_rule::base::stack_pointer) { return made; }
    auto const base = reinterpret_cast<std::uintptr_t>(
        made.rule.from == frame_rule::base::rbp ? frame[0] : frame + 2);
    made.found = *reinterpret_cast<void const* const*>(
        base + static_cast<std::size_t>(made.rule.size) - sizeof(void*));
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
/// A function that may align its stack, so that the rule cannot be expressed.
[[gnu::noinline]] bool aligned() {
    alignas(256) char volatile bulk[256]; // NOLINT
    bulk[0]         = 1;
    outcome const o = apply();
    kept_alive      = kept_alive + bulk[0];
    return o.rule.from == frame_rule::base::unknown || o.found == __builtin_return_address(0);
}

TEST_CASE("frame_rule: it leads to the return address of a function, also with alloca") {
    CHECK(fixed_size());
    CHECK(size_of_argument(16));
    CHECK(size_of_argument(5000));
    CHECK(aligned());
}

} // namespace frame_rule_test
#endif
