// SPDX-License-Identifier: Apache-2.0
// refuse: (conversion|could not convert|no suitable constructor).*bytes
// A plain number is not converted to bytes: it may be a count.
#include <vram/base/bytes.hpp>

vram::bytes const size = 64;
