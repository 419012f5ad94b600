// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/file_error.hpp> // the header alone declares the name below

static_assert(sizeof(vram::file_error) != 0);
