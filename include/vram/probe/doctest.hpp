// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The assertions of `probe/assertions.hpp` for doctest, and `VRAM_FAIL_ON_SIM_REPORTS`.
///
///     #include <doctest/doctest.h>
///     #include <vram/probe/doctest.hpp>
///
///     VRAM_CHECK_NO_LEAK(memory) { train_step(memory); }

#include <vram/probe/assertions.hpp>

#include <atomic> // atomic
#include <string> // string

#ifndef VRAM_DETAIL_VERDICT // of two frameworks in one file, the first is used

#define VRAM_DETAIL_VERDICT(...)                                                                   \
    do {                                                                                           \
        std::string const vram_failure = __VA_ARGS__;                                              \
        if (vram_failure.empty()) {                                                                \
            DOCTEST_CHECK(true);                                                                   \
        } else {                                                                                   \
            DOCTEST_ADD_FAIL_CHECK_AT(__FILE__, __LINE__,                                          \
                                      ::doctest::String(vram_failure.c_str()));                    \
        }                                                                                          \
    } while (false)

/// Makes the running test case fail if a `sim_node` with `sim_on_report::print` (the default)
/// reports a mistake, with the text of the report. Use the macro once in the program, in a file
/// that includes vram/sim/sim.hpp:
///
///     static auto const before = VRAM_FAIL_ON_SIM_REPORTS(); // in the file with the main function
///
/// For a mistake that a test case makes on purpose, use a `sim_expect`, or a `sim_node` with
/// `sim_on_report::collect`. Returns the previous `sim_report_sink`.
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

#endif // VRAM_DETAIL_VERDICT
