// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `of_many`, `of_orders` and `stride` say how much of a long run is made where every access is
/// watched.

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

/// ThreadSanitizer looks for races, which one thread does not have, and makes each of its steps
/// many times as dear: there, a run of one thread goes a tenth of the way, and `enough` steps at
/// least. It goes all of it in every other build. Several threads need `enough` steps to meet in all
/// that they share.
[[nodiscard]] constexpr unsigned of_many(unsigned steps, unsigned enough = 1) noexcept {
#ifdef VRAM_TESTS_TSAN
    return steps / 10 > enough ? steps / 10 : steps < enough ? steps : enough;
#else
    (void)enough;
    return steps;
#endif
}

/// And of a long list of cases every tenth is tried.
inline constexpr unsigned stride = of_many(10) == 10 ? 1 : 10;

/// Of orders of the same steps, all of which are tried where nothing is watched, a part is enough
/// to see that none touches what it should not.
#if defined(VRAM_TESTS_TSAN)
inline constexpr unsigned order_stride = 10;
#elif defined(VRAM_TESTS_ASAN)
inline constexpr unsigned order_stride = 4;
#else
inline constexpr unsigned order_stride = 1;
#endif
[[nodiscard]] constexpr unsigned of_orders(unsigned orders) noexcept {
    return orders / order_stride;
}

} // namespace laws
