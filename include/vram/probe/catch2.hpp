// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The assertions of `probe/assertions.hpp` for Catch2, and `VRAM_FAIL_ON_SIM_REPORTS`.
///
///     #include <catch2/catch_test_macros.hpp> // Catch2 2: <catch2/catch.hpp>
///     #include <vram/probe/catch2.hpp>
///
///     TEST_CASE("a step frees all") { VRAM_CHECK_NO_LEAK(memory) { train_step(memory); } }
///
/// Versions 2 and 3 are supported, also with `CATCH_CONFIG_PREFIX_ALL`. A failure does not end the
/// test case, as that of `CHECK`.

#include <vram/probe/assertions.hpp>

#include <string> // string

#ifndef VRAM_DETAIL_VERDICT // of two frameworks in one file, the first is used

#ifdef CATCH_CONFIG_PREFIX_ALL
#define VRAM_DETAIL_CATCH(macro) CATCH_##macro
#else
#define VRAM_DETAIL_CATCH(macro) macro
#endif
#define VRAM_DETAIL_VERDICT(...)                                                                   \
    do {                                                                                           \
        std::string const vram_failure = __VA_ARGS__;                                              \
        if (vram_failure.empty()) {                                                                \
            VRAM_DETAIL_CATCH(SUCCEED)();                                                          \
        } else {                                                                                   \
            VRAM_DETAIL_CATCH(FAIL_CHECK)(vram_failure);                                           \
        }                                                                                          \
    } while (false)

/// Makes each mistake that a `sim_node` with `sim_on_report::print` (the default) reports fail the
/// running test case, with the text of the report. The program calls it once, and
/// includes vram/sim/sim.hpp:
///
///     static auto const before = VRAM_FAIL_ON_SIM_REPORTS(); // in the file with the main function
///
/// For a mistake that a case makes on purpose, use a `sim_expect`, or a node with
/// `sim_on_report::collect`. Returns the previous `sim_report_sink`.
#define VRAM_FAIL_ON_SIM_REPORTS()                                                                 \
    ::vram::set_sim_report_sink(+[](::vram::sim_report const& vram_report) {                       \
        try {                                                                                      \
            VRAM_DETAIL_CATCH(FAIL_CHECK)(vram_report.text());                                     \
        } catch (...) {} /* no test case runs */                                                   \
    })

#endif // VRAM_DETAIL_VERDICT
