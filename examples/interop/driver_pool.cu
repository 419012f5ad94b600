// SPDX-License-Identifier: Apache-2.0
// A memory pool of the driver that vram shares with another library: the library allocates from the
// pool of a resource of vram, and a stack of vram allocates from the pool of the library.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/mr.hpp>
#include <vram/vram.hpp>

#if CCCL_VERSION >= 3002000
#include <cuda/memory_pool>
#endif

#include <cstddef>

using namespace vram;

// A library that knows nothing of vram.
namespace library {

void* scratch(cudaMemPool_t from, cudaStream_t stream, std::size_t bytes) {
    void* p = nullptr;
    return cudaMallocFromPoolAsync(&p, bytes, from, stream) == cudaSuccess ? p : nullptr;
}
void* scratch(cudaStream_t stream, std::size_t bytes) {
    void* p = nullptr;
    return cudaMallocAsync(&p, bytes, stream) == cudaSuccess ? p : nullptr;
}

} // namespace library

namespace {

bool lend(cuda_stream const& stream) {
    // [lend]
    cuda_async_resource memory{{.maximum_size = 1_GiB}};
    cudaMemPool_t const handle = memory.pool().get();        // valid until `memory` ends
    void* const p = library::scratch(handle, stream, 1_MiB); // calls cudaMallocFromPoolAsync
    // [/lend]
    // [set]
    int const device = memory.device().ordinal();
    cuda_check(cudaDeviceSetMemPool(device, handle)); // for each cudaMallocAsync of the process
    void* const q = library::scratch(stream, 1_MiB);  // calls cudaMallocAsync
    // [/set]
    bool const counted = memory.usage().live >= 2_MiB;
    cuda_check(cudaFreeAsync(q, stream));
    cuda_check(cudaFreeAsync(p, stream));
    stream.synchronize();
    return counted && memory.usage().live == 0;
}

#if CCCL_VERSION >= 3002000
bool borrow(cuda_stream const& stream, cudaMemPool_t theirs) {
    // [borrow]
    limiting   budget{mr{cuda::device_memory_pool_ref{theirs}}, 64_MiB};
    auto const scratch = make_array<float>(budget, stream, 1000);
    // [/borrow]
    return budget.used() == 4000;
}
#else
bool borrow(cuda_stream const&, cudaMemPool_t) { return true; } // CCCL has no such reference
#endif

} // namespace

int main() {
    cuda_stream const stream;
    cuda_pool const   theirs{cuda_device::current()}; // as a library may own one
    return lend(stream) && borrow(stream, theirs.get()) ? 0 : 1;
}
