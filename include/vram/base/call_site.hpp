// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `call_site` is the line of a program's call that a message names.

#include <vram/base/requirements.hpp>

#include <source_location> // source_location

namespace vram {

#ifndef VRAM_NO_CALL_SITES

/// The line of the program that called vram. Public functions that report or store this line have
/// it as their last parameter:
///
///     void deallocate(stream s, void* p, std::size_t bytes,
///                     std::size_t alignment = default_alignment,
///                     call_site   at        = call_site::current()) noexcept;
///
/// A function that forwards a call passes its own `at`. If the macro `VRAM_NO_CALL_SITES` is
/// defined in all translation units, every line is unknown.
///
/// Cost      One pointer to constant data.
class call_site {
public:
    constexpr call_site() noexcept = default; ///< makes an unknown line: `known()` returns false
    constexpr call_site(std::source_location where) noexcept : where_{where} {}

    /// Returns the line that contains the call of `current`. As a default argument, returns the
    /// line of the function call.
    [[nodiscard]] static constexpr call_site
    current(std::source_location where = std::source_location::current()) noexcept {
        return where;
    }

    /// Returns true if the line is known.
    [[nodiscard]] constexpr bool known() const noexcept { return line() != 0; }
    /// Returns the name of the source file; empty if the line is unknown.
    [[nodiscard]] constexpr char const* file() const noexcept { return where_.file_name(); }
    /// Returns the line number, or 0 if it is unknown.
    [[nodiscard]] constexpr unsigned line() const noexcept {
        return static_cast<unsigned>(where_.line());
    }
    /// Returns the name of the calling function; empty if the line is unknown.
    [[nodiscard]] constexpr char const* function() const noexcept { return where_.function_name(); }
    /// Returns the line as a `std::source_location`, which has the line number 0 if it is unknown.
    [[nodiscard]] constexpr std::source_location location() const noexcept { return where_; }
    /// Converts to a `std::source_location`, so that a `call_site` can be passed to functions which
    /// take a `std::source_location`.
    constexpr operator std::source_location() const noexcept { return where_; }

private:
    std::source_location where_; // has the line number 0 if the line is unknown
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
