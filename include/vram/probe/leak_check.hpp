// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `leak_check` reports memory that a scope has not freed at its end.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/probe/memory_delta.hpp>

#include <cstddef>
#include <source_location> // source_location

namespace vram {

/// A scope that must free all memory that it allocates. Otherwise the destructor reports a leak to
/// the error sink, as `error_kind::leak`.
///
///     leak_check watch{memory};
///     serve(request, memory);
///
/// Freed memory that a stream may still use is not a leak. In a test, prefer `VRAM_CHECK_NO_LEAK`
/// (probe/assertions.hpp), which fails the test.
///
/// Failure   The constructor throws the exceptions of `usage()`; the destructor never throws.
/// Threads   The rules are those of `usage()`. Memory of other threads is counted too.
/// Cost      One call of `usage()` at each end.
template <measured_resource Resource>
class leak_check {
public:
    /// Starts the check of `memory`. A leak is reported with the line `where`.
    [[nodiscard]] explicit leak_check(Resource&            memory,
                                      std::source_location where = std::source_location::current())
        : probe_{memory}, where_{where} {}
    leak_check(leak_check&&) = delete;

    ~leak_check() {
        if (!armed_) { return; }
        try {
            if (std::size_t const left = bytes(); left != 0) {
                report_error({.kind   = error_kind::leak,
                              .bytes  = left,
                              .where  = where_,
                              .caller = where_,
                              .advice = "Free every block before the scope that begins here ends; "
                                        "call dismiss() if it stays live on purpose."});
            }
        } catch (...) {
            detail::report_caught(error{.kind   = error_kind::lost_exception,
                                        .where  = where_,
                                        .caller = where_,
                                        .call   = "usage() at the end of the scope"});
        }
    }

    /// Returns the increase of the live bytes since the construction, or 0 if they decreased. These
    /// bytes are a leak if they are still live at the end of the scope.
    [[nodiscard]] std::size_t bytes() const { return probe_.bytes(); }
    /// Returns true if the live bytes have not increased since the construction.
    [[nodiscard]] bool clean() const { return bytes() == 0; }

    /// Makes the destructor report nothing: for memory that stays live on purpose.
    void dismiss() noexcept { armed_ = false; }

private:
    memory_delta<Resource> probe_;
    std::source_location   where_;
    bool                   armed_ = true;
};

} // namespace vram
