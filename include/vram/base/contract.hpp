// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `contract` is the one place where a broken promise of the caller ends.

#include <cstdio>          // fprintf
#include <cstdlib>         // abort
#include <source_location> // source_location

namespace vram {

/// What is told of a broken contract.
struct contract {
    char const*          what;
    std::source_location where;
};

/// Takes note of a broken contract before the program ends; it may throw instead (tests do), unless
/// the place is `noexcept`.
using contract_handler = void (*)(contract const&);

namespace detail {
inline constinit contract_handler on_broken_contract = nullptr;
}

/// Installs `handler` (nullptr: none) and returns the one before it. Not for use while other
/// threads run.
inline contract_handler set_contract_handler(contract_handler handler) noexcept {
    auto const before          = detail::on_broken_contract;
    detail::on_broken_contract = handler;
    return before;
}

/// Ends the program over a broken contract: says what and where on stderr, and aborts.
[[noreturn]] inline void
broken_contract(char const* what, std::source_location where = std::source_location::current()) {
    if (detail::on_broken_contract != nullptr) { detail::on_broken_contract({what, where}); }
    std::fprintf(stderr, "%s:%u: vram: broken contract in %s: %s\n", where.file_name(),
                 static_cast<unsigned>(where.line()), where.function_name(), what);
    std::abort();
}

/// Demands that `held` is true, whatever the build. Cost: one branch.
constexpr void expects(bool held, char const* what,
                       std::source_location where = std::source_location::current()) {
    if (!held) [[unlikely]] { broken_contract(what, where); }
}

} // namespace vram
