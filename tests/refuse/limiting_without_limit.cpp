// SPDX-License-Identifier: Apache-2.0
// refuse-first: the limit is missing: write with::limiting\(bytes\)
// A layer that needs an argument gets it in parentheses.
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

auto memory = vram::host_resource{} | vram::with::limiting;
