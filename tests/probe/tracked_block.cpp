// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/tracked_block.hpp> // first: the header stands alone

#include <type_traits>

using namespace vram;

static_assert(std::is_trivially_copyable_v<tracked_block>, "a list of them is copied as bytes");
static_assert(tracked_block{}.memory == nullptr);
