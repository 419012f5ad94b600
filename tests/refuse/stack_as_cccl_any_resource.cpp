// SPDX-License-Identifier: Apache-2.0
// refuse-first: write as_mr\(stack\)
// needs: cuda
// needs: cccl
// A stack, which cannot be copied, in a handle of CCCL that owns a copy.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/interop/mr.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <utility>

using memory_type = vram::pool<vram::stream_ordered<vram::cuda_resource>>;

void run(memory_type& memory) {
    ::cuda::mr::any_resource<::cuda::mr::device_accessible> const any{std::move(memory)};
    (void)any;
}
