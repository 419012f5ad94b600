// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `only_if_used` is the argument of templates that need none.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// The default argument of a template parameter that the template does not use. A class or function
/// is such a template, so that only files that use it compile it: nvcc compiles each function that
/// is no template in every file, with all functions of the standard library that it calls.
struct only_if_used {};

} // namespace detail
} // namespace vram
