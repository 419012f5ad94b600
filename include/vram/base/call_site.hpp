// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `call_site` is the line of the caller that a message names.

#include <vram/base/requirements.hpp> // C++20

#include <source_location> // source_location

namespace vram {

#ifndef VRAM_NO_CALL_SITES

/// The last parameter, always defaulted, of public functions that allocate, free, or report errors:
///
///     void* allocate(stream s, std::size_t bytes, std::size_t alignment = default_alignment,
///                    call_site at = call_site::current());
///
/// A function that forwards a call passes its own `at` on; a function that was called without one,
/// such as an allocator of the standard library, passes `call_site{}`, which is unknown. If the
/// macro `VRAM_NO_CALL_SITES` is defined in all translation units, the class is empty and every
/// site is unknown.
///
/// Failure   never
/// Threads   any
/// Cost      a constant address, which is only loaded if the callee is not inlined
class call_site {
public:
    constexpr call_site() noexcept = default; ///< unknown
    constexpr call_site(std::source_location where) noexcept : where_{where} {}

    /// The line that contains the call, also if this is a default argument of that call.
    [[nodiscard]] static constexpr call_site
    current(std::source_location where = std::source_location::current()) noexcept {
        return where;
    }

    [[nodiscard]] constexpr bool        known() const noexcept { return line() != 0; }
    [[nodiscard]] constexpr char const* file() const noexcept { return where_.file_name(); }
    [[nodiscard]] constexpr unsigned    line() const noexcept {
        return static_cast<unsigned>(where_.line());
    }
    [[nodiscard]] constexpr char const* function() const noexcept { return where_.function_name(); }
    /// The line as a location; one of no line if it is unknown.
    [[nodiscard]] constexpr std::source_location location() const noexcept { return where_; }
    /// A function that takes a `std::source_location` as its last parameter can be called with a
    /// site; the simulated device's functions do.
    constexpr operator std::source_location() const noexcept { return where_; }

private:
    std::source_location where_; // of no line: unknown
};

#else

inline namespace without_call_sites {
class call_site {
public:
    constexpr call_site() noexcept = default;
    constexpr call_site(std::source_location) noexcept {}

    [[nodiscard]] static constexpr call_site current() noexcept { return {}; }

    [[nodiscard]] static constexpr bool                 known() noexcept { return false; }
    [[nodiscard]] static constexpr char const*          file() noexcept { return ""; }
    [[nodiscard]] static constexpr unsigned             line() noexcept { return 0; }
    [[nodiscard]] static constexpr char const*          function() noexcept { return ""; }
    [[nodiscard]] static constexpr std::source_location location() noexcept { return {}; }
    constexpr operator std::source_location() const noexcept { return {}; }
};
} // namespace without_call_sites

#endif

} // namespace vram
