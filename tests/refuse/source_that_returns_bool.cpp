// SPDX-License-Identifier: Apache-2.0
// refuse: returns the number of bytes of the batch
// A source that returns true for "there was a batch" would make batches of one byte.
#include <vram/source/host_platform.hpp>
#include <vram/transfer/loader.hpp>

void load() {
    auto const more = [](std::span<std::byte>) { return true; };
    for (auto& batch : vram::loader{more, vram::host_platform::stream{}}) { (void)batch; }
}
