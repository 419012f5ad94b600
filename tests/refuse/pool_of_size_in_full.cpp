// SPDX-License-Identifier: Apache-2.0
// refuse-first: a size is an option of a pool, with a name: write memory\{\{.max_size = 1_GiB\}\}
// A size without the name of its option.
#include <vram/base/bytes.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

using namespace vram;

pool<host_resource> memory{1_GiB};
