// SPDX-License-Identifier: Apache-2.0
// refuse-first: write pool<stream_ordered<cuda_resource>>
// A pool over a type that is not a resource.
#include <vram/pool/pool.hpp>

vram::pool<int> memory;
