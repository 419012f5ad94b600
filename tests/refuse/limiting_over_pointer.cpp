// SPDX-License-Identifier: Apache-2.0
// refuse-first: by value, not by pointer: write limiting\{std::move\(memory\), 1_GiB\}
// A layer owns its upstream.
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

vram::host_resource host;
vram::limiting      memory{&host, 1024};
