// SPDX-License-Identifier: Apache-2.0
// refuse: (constraints not satisfied|invalid reference to function 'owns'|no matching|no instance of)
// A layer lacks each power that its upstream lacks; there is no stub that fails when it is called.
#include <vram/layer/statistics.hpp>
#include <vram/source/host_resource.hpp>

bool ask(vram::statistics<vram::host_resource>& memory, void* p) { return memory.owns(p); }
