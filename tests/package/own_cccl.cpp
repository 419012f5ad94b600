// SPDX-License-Identifier: Apache-2.0
// A C++ file of a project that has a CCCL of its own.
#include <cuda/memory_resource>

#ifndef CCCL_OF_THE_PROJECT
#error vram::cuda puts the CCCL of the Toolkit before that of the project
#endif

int main() {}
