// SPDX-License-Identifier: Apache-2.0
// Every way to end a process with objects of other libraries that have memory of vram: each frees
// its block when it is destroyed, also after `main`. On the double of CUDA, or on a GPU.

#include "kinds.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/interop/dlpack.hpp>
#include <vram/interop/mr.hpp>
#include <vram/interop/pmr.hpp>
#include <vram/interop/thrust.hpp>
#include <vram/interop/torch.hpp>

#ifdef VRAM_CUDART_DOUBLE
#include "../doubles/cudart/cudart.hpp"
#endif

using namespace tests::exits;

namespace {

using stack = pool<stream_ordered<cuda_resource>>;

#if CCCL_VERSION >= 3004000
/// CCCL's own handle, and a block that its owner frees through it.
struct with_cccl_owner : thing {
    ~with_cccl_owner() override {
        memory.deallocate(::cuda::stream_ref{stream.view().get()}, live, 3000, 256);
    }
    ::cuda::mr::any_resource<::cuda::mr::device_accessible> memory{shared{stack{}}};
    cuda_stream                                             stream{};
    void* live = memory.allocate(::cuda::stream_ref{stream.view().get()}, 3000, 256);
};
#endif
/// A block of a vector of Thrust.
struct with_thrust_block : thing {
    ~with_thrust_block() override { allocator.deallocate(live, 1000); }
    cuda_stream                     stream{};
    thrust_allocator<float>         allocator{shared{stack{}}, stream};
    decltype(allocator.allocate(1)) live = allocator.allocate(1000);
};
struct with_thrust_host_block : thing {
    ~with_thrust_host_block() override { allocator.deallocate(live, 1000); }
    thrust_host_allocator<float> allocator{shared{pool{pinned_resource{}}}};
    float*                       live = allocator.allocate(1000);
};
/// A tensor whose deleter the other library calls.
struct with_tensor : thing {
    ~with_tensor() override { tensor->deleter(tensor); }
    cuda_stream       stream{};
    shared<stack>     memory{stack{}};
    dlpack_versioned* tensor =
        to_dlpack(make_array<float>(memory, stream.view(), 1000), stream.view());
};
/// An imported tensor.
struct with_imported_tensor : thing {
    cuda_stream           stream{};
    shared<stack>         memory{stack{}};
    dlpack<cuda_platform> tensor{
        to_dlpack(make_array<float>(memory, stream.view(), 1000), stream.view()), stream.view()};
};
/// Tensors of PyTorch; one has a recorded stream.
struct with_torch_blocks : thing {
    with_torch_blocks() { memory.record_stream(live, other.view()); }
    ~with_torch_blocks() override {
        memory.deallocate(cuda_device{0}, stream.view(), live, 3000);
        memory.deallocate(cuda_device{0}, stream.view(), second, 5000);
    }
    cuda_stream            stream{}, other{};
    torch_allocator<stack> memory{
        [](cuda_device d) { return stack{stream_ordered{cuda_resource{d}}}; }};
    void* live   = memory.allocate(cuda_device{0}, stream.view(), 3000);
    void* second = memory.allocate(cuda_device{0}, stream.view(), 5000);
};
struct with_pmr_vector : thing {
    pmr<shared<pool<pinned_resource>>> standard{shared{pool{pinned_resource{}}}};
    std::pmr::vector<int>              data{{1, 2, 3}, &standard};
};

#ifdef VRAM_CUDART_DOUBLE
std::uint64_t calls_before = ~std::uint64_t{0}; ///< the process has not begun to end

/// No call after the process has begun to end, and none with a handle that CUDA destroyed.
int no_dangerous_call() {
    if (doubles::cudart::calls() > calls_before) { return 91; }
    if (doubles::cudart::dangling() != 0) { return 92; }
    return doubles::cudart::mistakes() != 0 ? 93 : 0;
}
#endif

} // namespace

int main(int argc, char** argv) {
#ifdef VRAM_CUDART_DOUBLE
    doubles::cudart::reset();
    doubles::cudart::keep_across_fork();
    check       = no_dangerous_call;
    before_exit = [] { calls_before = doubles::cudart::calls(); };
#endif
    return tests::exits::main(argc, argv, common_ways(),
                              {
#if CCCL_VERSION >= 3004000
                                  {"cccl_owner", make<with_cccl_owner>},
#endif
                                  {"thrust_block", make<with_thrust_block>},
                                  {"thrust_host_block", make<with_thrust_host_block>},
                                  {"tensor", make<with_tensor>},
                                  {"imported_tensor", make<with_imported_tensor>},
                                  {"torch_blocks", make<with_torch_blocks>},
                                  {"pmr_vector", make<with_pmr_vector>},
                              });
}
