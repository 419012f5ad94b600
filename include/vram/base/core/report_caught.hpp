// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_caught` passes an exception that is being handled to the error sink.

#include <vram/base/error.hpp> // report_error

#include <exception>       // exception
#include <source_location> // source_location
#include <system_error>    // system_error

namespace vram {
namespace detail {

/// Reports the error `e` from within a `catch` block. Adds the text of the caught exception to `e`,
/// and the code of a `std::system_error`. Functions that must not throw call this in `catch (...)`.
///
///     try { Platform::record(event, s); } catch (...) {
///         report_caught({.kind = error_kind::platform_error, .call = "record"});
///     }
inline void report_caught(error e) noexcept {
    try {
        throw;
    } catch (std::system_error const& x) {
        e.code  = x.code().value();
        e.cause = x.what();
        report_error(e);
    } catch (std::exception const& x) {
        e.cause = x.what();
        report_error(e);
    } catch (...) { report_error(e); }
}

/// Reports, from within a `catch` block, that the platform's function `call` failed. Adds the text
/// of the caught exception to the report.
[[gnu::noinline]] inline void
report_failed_call(char const*          call,
                   std::source_location where = std::source_location::current()) noexcept {
    report_caught({.kind = error_kind::platform_error, .where = where, .call = call});
}

} // namespace detail
} // namespace vram
