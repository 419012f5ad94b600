// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(memory\) .* shared\{std::move\(memory\)\}
// Two copies of a pool would manage the same memory twice.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::pool<vram::host_resource> first;
vram::pool                      second = first;
