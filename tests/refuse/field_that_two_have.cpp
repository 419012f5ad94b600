// SPDX-License-Identifier: Apache-2.0
// refuse: index_of
// A field can be named by its type only if no other field has that type.
#include <vram/data/fields.hpp>

#include <cstddef>
#include <span>

auto either(vram::fields<int, float, int> const& layout, std::span<std::byte> batch) {
    return layout.get<int>(batch);
}
