// SPDX-License-Identifier: Apache-2.0
// refuse: pool_options
// refuse-first clang++: (pool_options|inital_size)
// With plain braces no compiler names the option; with the name of the options all of them do.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::pool<vram::host_resource> memory{{.inital_size = 1024}};
