// SPDX-License-Identifier: Apache-2.0
// A C++ file, not compiled by nvcc, that uses the CCCL of the Toolkit.
#include <vram/cuda/cuda.hpp>
#include <vram/interop/mr.hpp>
#include <vram/vram.hpp>

template class vram::mr_view<vram::pool<vram::stream_ordered<vram::cuda_resource>>>;

int main() {}
