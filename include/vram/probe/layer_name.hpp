// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `layer_name` is the name of a layer in reports.

#include <vram/base/core/type_name.hpp>

#include <string_view> // string_view

namespace vram {

/// Returns the name of the class or class template of `Type`, such as `pool` for
/// `vram::pool<vram::cuda_resource>`. The returned text stays valid until the end of the process.
template <class Type>
constexpr std::string_view layer_name() noexcept {
    return detail::type_name<Type>();
}

} // namespace vram
