// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `of_many`, `of_orders` and `stride` shorten long runs in builds with sanitizers.

#if defined(__SANITIZE_THREAD__)
#define VRAM_TESTS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VRAM_TESTS_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define VRAM_TESTS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define VRAM_TESTS_ASAN 1
#endif

namespace laws {

/// Returns the number of steps to run. ThreadSanitizer looks for races between threads, and makes
/// each step many times slower. Under it the result is a tenth of `steps`, but at least `enough`, so
/// that several threads meet in all that they share. Other builds run all steps.
[[nodiscard]] constexpr unsigned of_many(unsigned steps, unsigned enough = 1) noexcept {
#ifdef VRAM_TESTS_TSAN
    return steps / 10 > enough ? steps / 10 : steps < enough ? steps : enough;
#else
    (void)enough;
    return steps;
#endif
}

/// Under ThreadSanitizer every tenth of a long list of cases is tried.
inline constexpr unsigned stride = of_many(10) == 10 ? 1 : 10;

/// The stride through all orders of the steps. Under a sanitizer a part of the orders is enough to
/// detect invalid accesses; other builds try all.
#if defined(VRAM_TESTS_TSAN)
inline constexpr unsigned order_stride = 20;
#elif defined(VRAM_TESTS_ASAN)
inline constexpr unsigned order_stride = 8;
#else
inline constexpr unsigned order_stride = 1;
#endif
[[nodiscard]] constexpr unsigned of_orders(unsigned orders) noexcept {
    return orders / order_stride;
}

} // namespace laws
