// SPDX-License-Identifier: Apache-2.0
// A stack of vram is lent to code that takes a `cuda::mr::resource_ref`, for one call or as a
// member; and a resource of CCCL gets a layer of vram.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/mr.hpp>
#include <vram/vram.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>

using pool_stack = vram::pool<vram::stream_ordered<vram::cuda_resource>>;

// A library that knows nothing of vram.
namespace library {

// [names]
#if CCCL_VERSION >= 3001000
using memory_ref = cuda::mr::resource_ref<cuda::mr::device_accessible>;
#else // CCCL 3.0, that of CUDA 13.0
using memory_ref = cuda::mr::async_resource_ref<cuda::mr::device_accessible>;
#endif
void* scratch(memory_ref memory, cuda::stream_ref stream, std::size_t bytes);
void  done(memory_ref memory, cuda::stream_ref stream, void* p, std::size_t bytes);
// [/names]

#if CCCL_VERSION >= 3001000
void* scratch(memory_ref memory, cuda::stream_ref stream, std::size_t bytes) {
    return memory.allocate(stream, bytes, 256);
}
void done(memory_ref memory, cuda::stream_ref stream, void* p, std::size_t bytes) {
    memory.deallocate(stream, p, bytes, 256);
}
#else
void* scratch(memory_ref memory, cuda::stream_ref stream, std::size_t bytes) {
    return memory.allocate_async(bytes, 256, stream);
}
void done(memory_ref memory, cuda::stream_ref stream, void* p, std::size_t bytes) {
    memory.deallocate_async(p, bytes, 256, stream);
}
#endif

} // namespace library

namespace {

// [member]
// A class that calls the library: the view is two words, and the stack must outlive it.
class solver {
public:
    explicit solver(pool_stack& memory) : memory_{memory} {}

    void step(cudaStream_t stream) {
        void* const p = library::scratch(memory_, stream, 1 << 20);
        library::done(memory_, stream, p, 1 << 20);
    }

private:
    vram::mr_view<pool_stack> memory_;
};
// [/member]

} // namespace

// Memory that arrives as a reference of CCCL gets a limit.
bool limited(library::memory_ref theirs) {
    using namespace vram;
    // [limit]
    limiting bounded{from_mr(theirs), 1_MiB};
    // [/limit]
    cuda_stream const stream;
    bounded.deallocate(stream, bounded.allocate(stream, 4096), 4096);
    try {
        (void)bounded.allocate(stream, 2_MiB);
    } catch (over_limit const&) { return true; }
    return false;
}

int main() {
    using namespace vram;
    cuda_stream const stream;
    pool_stack        memory;

    // [call]
    void* const p = library::scratch(as_mr(memory), stream.get(), 4096); // for one call
    // [/call]
    bool const lent = memory.usage().live >= 4096;
    library::done(as_mr(memory), stream.get(), p, 4096);

    solver both{memory};
    both.step(stream);
    cuda_check(cudaStreamSynchronize(stream));
    return lent && limited(as_mr(memory)) && memory.usage().live == 0 ? 0 : 1;
}
