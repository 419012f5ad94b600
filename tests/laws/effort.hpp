// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `of_many` and `stride` say how much of a long run is made where every access is watched.

#if defined(__SANITIZE_THREAD__)
#define VRAM_TESTS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VRAM_TESTS_TSAN 1
#endif
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

} // namespace laws
