// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `first_exception` makes several calls even if one throws, and rethrows the first exception.

#include <vram/base/core/report_caught.hpp>

#include <exception> // exception_ptr, current_exception, rethrow_exception

namespace vram {
namespace detail {

/// Makes several calls, each of them also if an earlier one throws. Then rethrows the first
/// exception; the others are reported to the error sink.
///
///     first_exception failed;
///     failed.of([&] { first.retire(s); });
///     failed.of([&] { second.retire(s); });
///     failed.rethrow();
class first_exception {
public:
    /// Calls `call()`, and keeps its exception if this is the first one.
    template <class Call>
    void of(Call const& call) noexcept {
        try {
            call();
        } catch (...) {
            if (first_) {
                report_caught({.kind = error_kind::lost_exception});
            } else {
                first_ = std::current_exception();
            }
        }
    }
    /// Throws the first exception that a call made by `of` has thrown. Returns if there was none.
    void rethrow() const {
        if (first_) { std::rethrow_exception(first_); }
    }

private:
    std::exception_ptr first_;
};

} // namespace detail
} // namespace vram
