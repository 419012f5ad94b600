// SPDX-License-Identifier: Apache-2.0
// refuse: pool_options
// refuse-first clang++: (pool_options|inital_size)
// No compiler names the option between plain braces; with the name of the options all do.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::pool<vram::host_resource> memory{{.inital_size = 1024}};
