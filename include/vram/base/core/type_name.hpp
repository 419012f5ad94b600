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

/// Returns the name of the class (template) without namespaces and arguments: `pool` for
/// `vram::pool<vram::cuda_resource>`.
template <class Type>
constexpr std::string_view type_name() noexcept {
    // The compiler's text before and after the name has the same length for all types, so it is
    // measured with `int`.
    constexpr std::string_view probe  = text_with_type<int>();
    constexpr std::size_t      before = probe.rfind("int");
    constexpr std::size_t      after  = probe.size() - before - 3;

    std::string_view name = text_with_type<Type>();
    name                  = name.substr(before, name.size() - before - after);
    for (std::string_view const word : {"const ", "class ", "struct "}) {
        if (name.starts_with(word)) { name.remove_prefix(word.size()); }
    }
    // The namespaces end at the last "::" before the first '<', which begins the arguments.
    std::string_view const stem  = name.substr(0, name.find('<'));
    std::size_t const      colon = stem.rfind("::");
    return colon == std::string_view::npos ? stem : stem.substr(colon + 2);
}

} // namespace detail
} // namespace vram
