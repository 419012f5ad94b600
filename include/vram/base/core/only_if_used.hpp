// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `only_if_used` is the argument of templates that need none.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Default argument of an unused template parameter: `template <class = only_if_used>`. The
/// parameter makes a function a template. nvcc compiles a template only in files that use it.
struct only_if_used {};

} // namespace detail
} // namespace vram
