// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The version of vram, for the preprocessor. The version of the CMake package is read from here.
///
///     #if VRAM_VERSION >= 200 // 0.2.0 or later

#define VRAM_VERSION_MAJOR 0
#define VRAM_VERSION_MINOR 1
#define VRAM_VERSION_PATCH 0

/// The version as one number, for comparisons: 1.23.4 is 12304, and a later version is greater.
#define VRAM_VERSION (VRAM_VERSION_MAJOR * 10000 + VRAM_VERSION_MINOR * 100 + VRAM_VERSION_PATCH)

#define VRAM_VERSION_STRING "0.1.0"
