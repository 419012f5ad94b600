// SPDX-License-Identifier: Apache-2.0
// refuse-first: by value, not by pointer: write
// A pool owns its upstream.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::host_resource host;
vram::pool          memory{&host};
