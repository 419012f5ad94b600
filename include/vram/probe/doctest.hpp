// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Assertions about the memory of a block of code, for doctest, and `VRAM_FAIL_ON_SIM_REPORTS`.
///
///     VRAM_CHECK_NO_LEAK(memory) { train_step(memory); }
///     VRAM_CHECK_DELTA(memory, 4_KiB) { cache.warm(); }
///     VRAM_CHECK_PEAK_AT_MOST(memory, 64_MiB) { sort(memory, keys); }
///     VRAM_CHECK_ALLOCATIONS(memory, 0) { steady_state(); }
///     VRAM_CHECK_NO_ERRORS { serve(memory); }
///
/// The macros nest, and may be used at any place at which a block is allowed. A following `else`
/// belongs to the `if` before the macro. (As the only statement of an `if` without an `else`, a
/// macro needs braces around it, as compilers say with -Wdangling-else.) The check is made when the
/// block ends, also by `return` and `break`. If an exception leaves the block, no check is made,
/// because the exception is the failure. `memory` is any resource with `usage()`; put `statistics`
/// over one that has none. This header does not include doctest, which the macros need at the place
/// of their use.

#include <vram/base/bytes.hpp>               // bytes
#include <vram/probe/core/checked_scope.hpp> // checked_scope, checked_errors

#include <atomic>  // atomic
#include <cstddef> // size_t

/// Makes each mistake that a simulated device reports fail the test case in which it occurs, with
/// the text of the report and the line of the mistake. The program writes it once, and includes
/// vram/sim/sim.hpp:
///
///     static auto const before = VRAM_FAIL_ON_SIM_REPORTS(); // in the file with the main function
///
/// Only nodes with `sim_on_report::print`, the default, do this. A mistake that a case makes on
/// purpose is marked by `sim_expect`, or the case has a node with `sim_on_report::collect`. The
/// result is the `sim_report_sink` before, for `set_sim_report_sink`.
#define VRAM_FAIL_ON_SIM_REPORTS()                                                                 \
    ::vram::set_sim_report_sink(+[](::vram::sim_report const& vram_report) {                       \
        if (!::doctest::is_running_in_test) { return; }                                            \
        static std::atomic<void const*> vram_failed{nullptr};                                      \
        void const* const               vram_case = ::doctest::getContextOptions()->currentTest;   \
        /* Of a mistake that is repeated, the first in each case fails the case. */                \
        if (vram_failed.exchange(vram_case) == vram_case && vram_report.count > 1) { return; }     \
        DOCTEST_ADD_FAIL_CHECK_AT(vram_report.second.where.file_name(),                            \
                                  static_cast<int>(vram_report.second.where.line()),               \
                                  ::doctest::String(vram_report.text().c_str()));                  \
    })

/// Fails if more memory is live at the end of the block than at its start.
#define VRAM_CHECK_NO_LEAK(memory)                                                                 \
    VRAM_DETAIL_SCOPE(memory, VRAM_DETAIL_QUESTION(vram_taken, vram_scope.bytes(), ==,             \
                                                   vram_expected, 0, "the checked code leaks ",    \
                                                   VRAM_DETAIL_SIZE(vram_taken)))

/// Fails unless exactly `size` bytes more are live at the end of the block than at its start. A
/// negative `size` means that the block frees as many.
#define VRAM_CHECK_DELTA(memory, size)                                                             \
    VRAM_DETAIL_SCOPE(memory, VRAM_DETAIL_QUESTION(vram_taken, vram_scope.difference(), ==,        \
                                                   vram_expected, size, "the checked code ",       \
                                                   VRAM_DETAIL_DIFFERENCE(vram_taken)))

/// Fails if at any moment of the block more than `size` bytes were live beyond those at its start.
/// If the resource knows only a bound of the peak (see `memory_delta`), the bound is checked: the
/// check may then fail for a block within the limit, but never passes for one beyond it.
#define VRAM_CHECK_PEAK_AT_MOST(memory, size)                                                      \
    VRAM_DETAIL_SCOPE(memory, VRAM_DETAIL_QUESTION(                                                \
                                  vram_peak, vram_scope.peak(), <=, vram_allowed, size,            \
                                  "the checked code raises the peak of live bytes by ",            \
                                  ::doctest::String(vram_scope.peak_is_exact() ? "" : "at most "), \
                                  VRAM_DETAIL_SIZE(vram_peak)))

/// Fails unless the block makes exactly `count` allocations.
#define VRAM_CHECK_ALLOCATIONS(memory, count)                                                      \
    VRAM_DETAIL_SCOPE(memory,                                                                      \
                      VRAM_DETAIL_QUESTION(vram_allocations, vram_scope.allocations(), ==,         \
                                           vram_expected, count, "the checked code makes ",        \
                                           vram_allocations, " allocations"))

/// Fails if an error is reported to the error sink during the block, by any thread.
#define VRAM_CHECK_NO_ERRORS                                                                       \
    if (::vram::detail::checked_errors const VRAM_DETAIL_JOIN(                                     \
            vram_errors_of_line_, __LINE__){[&](::vram::error_count const& vram_errors) {          \
            DOCTEST_CHECK_MESSAGE(                                                                 \
                vram_errors.count() == 0,                                                          \
                "the first error of the checked code: ", ::doctest::String(vram_errors.first()));  \
        }};                                                                                        \
        false) {                                                                                   \
    } else

#define VRAM_DETAIL_DIFFERENCE(count)                                                              \
    ::doctest::String((count) < 0 ? "lowers the live bytes by " : "raises the live bytes by "),    \
        VRAM_DETAIL_SIZE(static_cast<std::size_t>((count) < 0 ? -(count) : (count)))
#define VRAM_DETAIL_SIZE(count) ::doctest::String(::vram::bytes{count}.text().c_str())
#define VRAM_DETAIL_QUESTION(value, question, relation, bound, answer, ...)                        \
    auto const value = question;                                                                   \
    auto const bound = static_cast<decltype(question)>(answer);                                    \
    DOCTEST_CHECK_MESSAGE(value relation bound, __VA_ARGS__)
#define VRAM_DETAIL_JOIN2(a, b) a##b
#define VRAM_DETAIL_JOIN(a, b) VRAM_DETAIL_JOIN2(a, b)
#define VRAM_DETAIL_SCOPE(memory, ...)                                                             \
    if (::vram::detail::checked_scope const VRAM_DETAIL_JOIN(vram_scope_of_line_, __LINE__){       \
            memory, [&](auto const& vram_scope) { __VA_ARGS__; }};                                 \
        false) {                                                                                   \
    } else
