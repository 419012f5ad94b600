// SPDX-License-Identifier: Apache-2.0
// refuse: (deleted|implicitly-deleted|non-copyable|never copied)
// A stack is moved or shared, never copied: two copies would keep two books of one memory.
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

vram::limiting const first{vram::host_resource{}, 64};
vram::limiting const second = first;
