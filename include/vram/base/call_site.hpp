// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `call_site` is the line of a program's call that a message names.

#include <vram/base/requirements.hpp>

#include <source_location> // source_location

namespace vram {

#ifndef VRAM_NO_CALL_SITES

/// The line from which a program called vram. It is the last, defaulted parameter of the public
/// functions that report the line, store it or pass it on: the functions of pools, layers and
/// handles that allocate, free, copy or fill, and those that throw `loader_error` or
/// `staging_error`. A pool passes it to its observers (see `observer`), and reports it with an
/// invalid free. An `out_of_memory` does not contain it, because the exception itself reaches that
/// line.
///
///     void deallocate(stream s, void* p, std::size_t bytes,
///                     std::size_t alignment = default_alignment,
///                     call_site   at        = call_site::current()) noexcept;
///
/// A function that forwards a call passes its parameter `at` to the next function. A function
/// without such a parameter, such as `allocate` of a standard allocator, passes `call_site{}`, the
/// unknown line. If the macro `VRAM_NO_CALL_SITES` is defined in all translation units, the class
/// is empty and every line is unknown.
///
/// Failure   Never throws.
/// Threads   Any thread may use its own object.
/// Cost      One pointer to constant data, which is loaded only if the callee is not inlined.
class call_site {
public:
    constexpr call_site() noexcept = default; ///< an unknown line
    constexpr call_site(std::source_location where) noexcept : where_{where} {}

    /// Returns the line that contains the call of `current`. As a default argument,
    /// `call_site::current()` returns the line of the call that uses the default.
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
    /// Converts to a `std::source_location`, so that functions which take one as their last
    /// parameter, such as those of the simulated device, can be called with a `call_site`.
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
