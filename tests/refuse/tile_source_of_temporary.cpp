// SPDX-License-Identifier: Apache-2.0
// refuse: (borrowed_range|no instance of constructor .*tile_source)
// A source refers to its volume: one that is gone by the end of the line is refused.
#include <vram/data/tile_source.hpp>

#include <vector>

auto cut_out(vram::tiles<1> const& cut) { return vram::tile_source{cut, std::vector<float>(100)}; }
