// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Assertions about the memory of a block of code, for the test frameworks doctest, GoogleTest and
/// Catch2.
///
///     #include <gtest/gtest.h>
///     #include <vram/probe/gtest.hpp> // or probe/doctest.hpp, or probe/catch2.hpp
///
///     VRAM_CHECK_NO_LEAK(memory) { train_step(memory); }
///     VRAM_CHECK_DELTA(memory, 4_KiB) { cache.warm(); }
///     VRAM_CHECK_DELTA_AT_MOST(memory, 1_MiB) { cache.add(key); }
///     VRAM_CHECK_PEAK_AT_MOST(memory, 64_MiB) { sort(memory, keys); }
///     VRAM_CHECK_ALLOCATIONS(memory, 2) { first_step(); }
///     VRAM_CHECK_NO_ALLOCATION(memory) { steady_state(); }
///     VRAM_CHECK_BALANCED(memory) { exchange(memory, left, right); }
///     VRAM_CHECK_NO_ERRORS { serve(memory); }
///     VRAM_CHECK_SURVIVES_OOM(memory, [&](auto& mr) { return digest(mr, input); });
///
/// The macros nest, and may be used at any place at which a block is allowed. A following `else`
/// belongs to the `if` before the macro. (As the only statement of an `if` without an `else`, a
/// macro needs braces around it, as compilers say with -Wdangling-else.) The check is made when the
/// block ends, also by `return` and `break`. If an exception leaves the block, no check is made,
/// because the exception is the failure. `memory` is any resource with `usage()`; put `statistics`
/// over one that has none, and over `guarded`, the figures of which include its fences. If the
/// stack has the layer `tracking`, a failure names the tags and lines that contribute to it. A
/// failure does not end the test case.
///
/// A program includes the header of its framework, which includes this one. The headers do not
/// include the framework, which the macros need at the place of their use.

#include <vram/base/bytes.hpp>
#include <vram/probe/core/checked_scope.hpp> // checked_scope, checked_balance, checked_errors
#include <vram/probe/survives_oom.hpp>

#include <cstddef>
#include <cstdint>
#include <string> // string

/// Fails if more bytes are live at the end of the code block after the macro than at its start.
#define VRAM_CHECK_NO_LEAK(memory) VRAM_DETAIL_SCOPE(memory, no_leak())

/// Fails unless exactly `size` more bytes are live at the end of the code block after the macro
/// than before. `size` may be negative. A pool counts rounded sizes, `statistics` requested ones.
#define VRAM_CHECK_DELTA(memory, size)                                                             \
    VRAM_DETAIL_SCOPE(memory, delta_is(static_cast<std::ptrdiff_t>(size)))

/// Fails if more than `size` bytes more are live at the end of the code block after the macro than
/// at its start.
#define VRAM_CHECK_DELTA_AT_MOST(memory, size)                                                     \
    VRAM_DETAIL_SCOPE(memory, delta_at_most(static_cast<std::ptrdiff_t>(size)))

/// Fails if more than `size` additional bytes were live at any moment of the code block after the
/// macro. `memory_delta` tells which peaks are exact.
#define VRAM_CHECK_PEAK_AT_MOST(memory, size)                                                      \
    VRAM_DETAIL_SCOPE(memory, peak_at_most(static_cast<std::size_t>(size)))

/// Fails unless exactly `count` allocations succeed in the code block after the macro.
#define VRAM_CHECK_ALLOCATIONS(memory, count)                                                      \
    VRAM_DETAIL_SCOPE(memory, allocations_are(static_cast<std::uint64_t>(count)))

/// Fails if an allocation succeeds in the code block after the macro.
#define VRAM_CHECK_NO_ALLOCATION(memory) VRAM_DETAIL_SCOPE(memory, allocations_are(0))

/// Fails unless the code block frees exactly the blocks that it allocates, each on the stream of
/// its allocation. Needs the layer `tracking`.
#define VRAM_CHECK_BALANCED(memory) VRAM_DETAIL_FACTS(checked_balance, memory, unbalanced())

/// Fails if any thread reports an error to the error sink during the code block after the macro.
#define VRAM_CHECK_NO_ERRORS                                                                       \
    if (::vram::detail::checked_errors const VRAM_DETAIL_JOIN(vram_errors_, __COUNTER__){          \
            [&](::vram::error_count const& vram_errors) {                                          \
                VRAM_DETAIL_VERDICT(::vram::detail::no_errors(vram_errors));                       \
            }};                                                                                    \
        false) {                                                                                   \
    } else

/// Fails unless the function survives each refusal of its allocations. The arguments after `memory`
/// are those of `survives_oom`. No code block follows.
#define VRAM_CHECK_SURVIVES_OOM(memory, ...)                                                       \
    do {                                                                                           \
        ::vram::oom_survival const vram_result = ::vram::survives_oom(memory, __VA_ARGS__);        \
        VRAM_DETAIL_VERDICT(vram_result ? std::string{} : vram_result.text());                     \
    } while (false)

#define VRAM_DETAIL_JOIN2(a, b) a##b
#define VRAM_DETAIL_JOIN(a, b) VRAM_DETAIL_JOIN2(a, b)
#define VRAM_DETAIL_SCOPE(memory, ...) VRAM_DETAIL_FACTS(checked_scope, memory, __VA_ARGS__)
#define VRAM_DETAIL_FACTS(scope, memory, ...)                                                      \
    if (::vram::detail::scope const VRAM_DETAIL_JOIN(vram_scope_, __COUNTER__){                    \
            memory, [&](auto const& vram_facts) { VRAM_DETAIL_VERDICT(vram_facts.__VA_ARGS__); }}; \
        false) {                                                                                   \
    } else
