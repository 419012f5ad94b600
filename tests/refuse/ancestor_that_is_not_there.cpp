// SPDX-License-Identifier: Apache-2.0
// refuse: (has_ancestor|no instance of)
// A stack does not have the requested layer: an error at compile time.
#include <vram/layer/ancestor.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/source/host_resource.hpp>

auto& find(vram::limiting<vram::host_resource>& stack) {
    return vram::ancestor<vram::statistics>(stack);
}
