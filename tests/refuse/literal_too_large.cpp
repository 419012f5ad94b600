// SPDX-License-Identifier: Apache-2.0
// refuse: size literal does not fit|is not a constant expression
// A literal that does not fit into std::size_t is an error at its position.
#include <vram/base/bytes.hpp>

using namespace vram;
std::size_t const size = 17179869184_GiB; // 2^64 bytes
