// SPDX-License-Identifier: Apache-2.0
// refuse-first: the upstream of a layer or pool is a resource, not a size: write
// The upstream of a layer must be a resource, and the compiler names the missing requirement.
#include <vram/layer/limiting.hpp>

vram::limiting<int> const budget{1, 64};
