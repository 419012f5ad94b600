// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The former path of `vram/data/file_error.hpp`. Version 0.2 removes this header.

#include <vram/data/file_error.hpp>
