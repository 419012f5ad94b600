// SPDX-License-Identifier: Apache-2.0
// refuse-first: inital_size
// With the name of the options before the braces, every compiler names the unknown option.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::pool memory{vram::host_resource{}, vram::pool_options{.inital_size = 1024}};
