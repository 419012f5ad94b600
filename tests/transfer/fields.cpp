// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/fields.hpp> // the header alone declares the name below

static_assert(sizeof(vram::fields<float>) != 0);
