// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `scope_facts` makes the statements about the memory of a scope that assertions check.

#include <vram/concepts/powers.hpp> // measured_resource
#include <vram/probe/core/site_marks.hpp>
#include <vram/probe/core/text_of_site.hpp> // text_of_size
#include <vram/probe/error_count.hpp>
#include <vram/probe/memory_delta.hpp>

#include <cstddef>
#include <cstdint>
#include <string> // string, to_string

namespace vram {
namespace detail {

/// Measures the memory of a scope for the check macros. Each function checks one statement, such as
/// `no_leak()`, and returns an empty text or the message of the failure.
///
///     scope_facts const facts{memory};
///     std::string const failure = facts.no_leak();
template <measured_resource R>
class scope_facts {
public:
    explicit scope_facts(R& memory) : delta_{memory}, sites_{memory} {}

    [[nodiscard]] std::string no_leak() const {
        std::size_t const left = delta_.bytes();
        if (left == 0) { return {}; }
        return "the checked code leaks " + text_of_size(left) + lines(site_figure::live);
    }
    [[nodiscard]] std::string delta_is(std::ptrdiff_t expected) const {
        std::ptrdiff_t const found = delta_.difference();
        if (found == expected) { return {}; }
        return "the checked code " + text_of_change(found) + ", not by " +
               text_of_signed(expected) + lines(site_figure::live);
    }
    [[nodiscard]] std::string delta_at_most(std::ptrdiff_t most) const {
        std::ptrdiff_t const found = delta_.difference();
        if (found <= most) { return {}; }
        return "the checked code " + text_of_change(found) + ", by more than " +
               text_of_signed(most) + lines(site_figure::live);
    }
    /// Returns an empty text if the live bytes never rose by more than `most` since this object was
    /// made. Otherwise returns the message of the failure.
    [[nodiscard]] std::string peak_at_most(std::size_t most) const {
        std::size_t const found = delta_.peak();
        if (found <= most) { return {}; }
        return "the checked code raises the peak of live bytes by " +
               std::string{delta_.peak_is_exact() ? "" : "at most "} + text_of_size(found) + " (" +
               std::to_string(found) + " bytes), more than " + text_of_size(most) + " (" +
               std::to_string(most) + " bytes)" + lines(site_figure::allocations);
    }
    [[nodiscard]] std::string allocations_are(std::uint64_t expected) const {
        std::uint64_t const found = delta_.allocations();
        if (found == expected) { return {}; }
        return "the checked code makes " + std::to_string(found) + " allocations, not " +
               std::to_string(expected) + lines(site_figure::allocations);
    }

private:
    [[nodiscard]] std::string lines(site_figure which) const {
        std::string out = sites_.risen(which);
        return out.empty() ? out : ":" + out;
    }
    [[nodiscard]] static std::size_t magnitude(std::ptrdiff_t n) noexcept {
        return n < 0 ? std::size_t{0} - static_cast<std::size_t>(n) : static_cast<std::size_t>(n);
    }
    [[nodiscard]] static std::string text_of_signed(std::ptrdiff_t n) {
        return (n < 0 ? "-" : "") + text_of_size(magnitude(n)) + " (" + std::to_string(n) +
               " bytes)";
    }
    [[nodiscard]] static std::string text_of_change(std::ptrdiff_t n) {
        return (n < 0 ? "lowers" : "raises") + std::string{" the live bytes by "} +
               text_of_size(magnitude(n)) + " (" + std::to_string(magnitude(n)) + " bytes)";
    }

    memory_delta<R> delta_;
    site_marks<>    sites_;
};

/// Returns an empty text if no error was reported, otherwise the message of the failure.
[[nodiscard]] inline std::string no_errors(error_count const& errors) {
    std::uint64_t const found = errors.count();
    if (found == 0) { return {}; }
    return (found == 1 ? std::string{"the checked code reports an error: "}
                       : "the checked code reports " + std::to_string(found) +
                             " errors, the first of which is: ") +
           errors.first();
}

} // namespace detail
} // namespace vram
