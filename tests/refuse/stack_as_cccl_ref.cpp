// SPDX-License-Identifier: Apache-2.0
// refuse-first: write as_mr\(stack\), a view of it; for RMM, as_rmm\(stack\)
// needs: cuda
// needs: cccl
// A stack, which cannot be copied, in a reference of CCCL.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/interop/mr.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

using memory_type = vram::pool<vram::stream_ordered<vram::cuda_resource>>;

void run(memory_type& memory) {
    ::cuda::mr::resource_ref<::cuda::mr::device_accessible> const ref{memory};
    (void)ref;
}
