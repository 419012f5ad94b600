// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The assertions of `probe/assertions.hpp` for GoogleTest, and `VRAM_FAIL_ON_SIM_REPORTS`.
///
///     #include <gtest/gtest.h>
///     #include <vram/probe/gtest.hpp>
///
///     TEST(step, frees_all) { VRAM_CHECK_NO_LEAK(memory) { train_step(memory); } }
///
/// A failure is non-fatal, as that of `EXPECT_TRUE`.

#include <vram/probe/assertions.hpp>

#include <atomic> // atomic
#include <string> // string

#ifndef VRAM_DETAIL_VERDICT // of two frameworks in one file, the first is used

#define VRAM_DETAIL_VERDICT(...)                                                                   \
    do {                                                                                           \
        std::string const vram_failure = __VA_ARGS__;                                              \
        if (!vram_failure.empty()) { ADD_FAILURE() << vram_failure; }                              \
    } while (false)

/// Makes the running test fail if a `sim_node` with `sim_on_report::print` (the default) reports
/// a mistake, with the text of the report. Use the macro once in the program, in a file that
/// includes vram/sim/sim.hpp:
///
///     static auto const before = VRAM_FAIL_ON_SIM_REPORTS(); // in the file with the main function
///
/// If a test makes a mistake on purpose, use a `sim_expect`, an object that expects a report, or a
/// `sim_node` that only stores its reports (`sim_on_report::collect`). Returns the previous
/// `sim_report_sink`, the function that received the reports before.
#define VRAM_FAIL_ON_SIM_REPORTS()                                                                 \
    ::vram::set_sim_report_sink(+[](::vram::sim_report const& vram_report) {                       \
        void const* const vram_case = ::testing::UnitTest::GetInstance()->current_test_info();     \
        if (vram_case == nullptr) { return; }                                                      \
        static std::atomic<void const*> vram_failed{nullptr};                                      \
        /* Of a mistake that is repeated, the first in each test fails the test. */                \
        if (vram_failed.exchange(vram_case) == vram_case && vram_report.count > 1) { return; }     \
        ADD_FAILURE_AT(vram_report.second.where.file_name(),                                       \
                       static_cast<int>(vram_report.second.where.line()))                          \
            << vram_report.text();                                                                 \
    })

#endif // VRAM_DETAIL_VERDICT
