// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The former path of `vram/data/fields.hpp`. Version 0.2 removes this header.

#include <vram/data/fields.hpp>
