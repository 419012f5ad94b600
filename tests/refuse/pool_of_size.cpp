// SPDX-License-Identifier: Apache-2.0
// refuse-first: is a resource, not a size: write pool<stream_ordered<cuda_resource>> memory\{\{.initial_size = 1_GiB\}\}
// A pool without an upstream.
#include <vram/base/bytes.hpp>
#include <vram/pool/pool.hpp>

using namespace vram;

pool memory{1_GiB};
