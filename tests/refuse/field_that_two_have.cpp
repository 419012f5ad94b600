// SPDX-License-Identifier: Apache-2.0
// refuse: index_of
// A field is asked for by its type where no other has it.
#include <vram/transfer/fields.hpp>

#include <cstddef>
#include <span>

auto either(vram::fields<int, float, int> const& layout, std::span<std::byte> batch) {
    return layout.get<int>(batch);
}
