// SPDX-License-Identifier: Apache-2.0
// refuse: (deleted|implicitly-deleted)
// Only one resource may allocate from a range.
#include <vram/source/region_resource.hpp>

char                          buffer[64];
vram::region_resource<>       first{buffer, sizeof buffer};
vram::region_resource<> const second = first;
