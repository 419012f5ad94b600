// SPDX-License-Identifier: Apache-2.0
// refuse: (conversion|could not convert|no suitable constructor).*bytes
// Bytes and a plain number are not mixed up: a count is named as one.
#include <vram/base/bytes.hpp>

vram::bytes const size = 64;
