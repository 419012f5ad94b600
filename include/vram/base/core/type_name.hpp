// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `type_name` is the name of a class without namespaces and template arguments.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <string_view> // string_view

namespace vram {
namespace detail {

/// Returns the signature of this function as the compiler writes it (`__PRETTY_FUNCTION__`). It
/// contains the name of `Type`, which `type_name` cuts out.
template <class Type>
constexpr std::string_view text_with_type() noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
    return __FUNCSIG__;
#else
    return __PRETTY_FUNCTION__;
#endif
}

/// Returns `name` without the template arguments at its end. They begin at the '<' that matches the
/// last '>'.
constexpr std::string_view without_arguments(std::string_view name) noexcept {
    if (!name.ends_with('>')) { return name; }
    std::size_t depth = 0;
    for (std::size_t i = name.size(); i-- != 0;) {
        if (name[i] == '>' && (i == 0 || name[i - 1] != '-')) { ++depth; }
        if (name[i] == '<' && --depth == 0) { return name.substr(0, i); }
    }
    return name.substr(0, name.find('<'));
}

/// Returns the name of the class (template) without namespaces, outer classes and arguments: `pool`
/// for `vram::pool<vram::cuda_resource>`; "unnamed" for a class without a name.
template <class Type>
constexpr std::string_view type_name() noexcept {
    // Measures the text that the compiler writes before and after the name of the type. The lengths
    // are the same for all types, so the type `int` serves as an example.
    constexpr std::string_view probe  = text_with_type<int>();
    constexpr std::size_t      before = probe.rfind("int");
    constexpr std::size_t      after  = probe.size() - before - 3;

    std::string_view name = text_with_type<Type>();
    name                  = name.substr(before, name.size() - before - after);
    for (std::string_view const word : {"const ", "class ", "struct "}) {
        if (name.starts_with(word)) { name.remove_prefix(word.size()); }
    }
    name                    = without_arguments(name);
    std::size_t const colon = name.rfind("::");
    if (colon != std::string_view::npos) { name.remove_prefix(colon + 2); }
    // Compilers write a class without a name as "<unnamed struct>" or "(unnamed struct at ...)".
    return name.empty() || name.front() == '(' ? "unnamed" : name;
}

} // namespace detail
} // namespace vram
