// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `contract` reports violations of a precondition and ends the program.

#include <vram/base/call_site.hpp>

#include <cstdio>          // fprintf
#include <cstdlib>         // abort
#include <source_location> // source_location

namespace vram {

/// A violated precondition: `what` is its text. `where` is the line of the program that called vram
/// if the check knows this line, else the line of the check.
struct contract {
    char const*          what;
    std::source_location where;
};

/// A function that is called before a violated precondition aborts the program. It may throw,
/// unless the check is in a `noexcept` function.
using contract_handler = void (*)(contract const&);

namespace detail {
inline constinit contract_handler on_broken_contract = nullptr;
}

/// Installs `handler` as the function that is called when a precondition is violated. If `handler`
/// is null, no function is called. Returns the previously installed handler.
///
/// Threads   No other thread may use vram during the call.
inline contract_handler set_contract_handler(contract_handler handler) noexcept {
    auto const before          = detail::on_broken_contract;
    detail::on_broken_contract = handler;
    return before;
}

/// Calls the installed handler, if there is one. Unless the handler throws, prints the violated
/// precondition `what` and its location to stderr, and aborts.
[[noreturn]] inline void
broken_contract(char const* what, std::source_location where = std::source_location::current()) {
    if (detail::on_broken_contract != nullptr) { detail::on_broken_contract({what, where}); }
    // Prints the name of the function last, because the name of a function template can be long.
    std::fprintf(stderr, "vram: broken contract: %s\n  found at %s:%u, in %s\n", what,
                 where.file_name(), static_cast<unsigned>(where.line()), where.function_name());
    std::abort();
}

/// Calls the handler, or prints and aborts, as above. If `caller` is known, reports this line of
/// the program instead of the line of the check.
[[noreturn]] inline void
broken_contract(char const* what, call_site caller,
                std::source_location where = std::source_location::current()) {
    broken_contract(what, caller.known() ? caller.location() : where);
}

/// Checks a precondition, also in release builds. If `held` is false, calls `broken_contract`,
/// which throws or ends the program.
///
/// Cost      One branch.
constexpr void expects(bool held, char const* what,
                       std::source_location where = std::source_location::current()) {
    if (!held) [[unlikely]] { broken_contract(what, where); }
}

/// Checks a precondition as above. If `caller` is known, reports this line of the program instead
/// of the line of the check.
constexpr void expects(bool held, char const* what, call_site caller,
                       std::source_location where = std::source_location::current()) {
    if (!held) [[unlikely]] { broken_contract(what, caller, where); }
}

} // namespace vram
