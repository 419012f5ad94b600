// SPDX-License-Identifier: Apache-2.0
// refuse: (deleted|implicitly-deleted|non-copyable|never copied)
// A stack is moved or shared, never copied: two copies would count the same memory twice.
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

vram::limiting const first{vram::host_resource{}, 64};
vram::limiting const second = first;
