// SPDX-License-Identifier: Apache-2.0
// planted POOL FAULT: one fault of a kernel in a block of a pool, for compute-sanitizer (planted.py).
// Prints the block. planted --list prints the pools.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/nvtx_memory.hpp>
#include <vram/vram.hpp>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

using namespace vram;

namespace {

constexpr std::size_t size = 1000; // pools round it up: the byte behind it belongs to no block

__global__ void fill(unsigned char* p, std::size_t n) {
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) { p[i] = 1; }
}
__global__ void write_byte(unsigned char* p) { *p = 2; }
__global__ void read_byte(unsigned char const* p, unsigned char* to) { *to = *p; }

template <class R>
unsigned char* block(R& memory, cuda_stream const& s) {
    return static_cast<unsigned char*>(memory.allocate(s, size));
}
template <class R>
void free(R& memory, cuda_stream const& s, void* p) {
    memory.deallocate(s, p, size);
}
void finish(cuda_stream const& s) { cuda_check(cudaStreamSynchronize(s.get())); }

/// Uses memory in all valid ways: also again after a free, and in a graph.
template <class R>
void use_well(R& memory, cuda_stream const& s) {
    for (int i = 0; i != 3; ++i) {
        unsigned char* const p = block(memory, s);
        unsigned char* const q = block(memory, s);
        fill<<<1, 128, 0, s.get()>>>(p, size);
        fill<<<1, 128, 0, s.get()>>>(q, size);
        read_byte<<<1, 1, 0, s.get()>>>(p, q);
        finish(s);
        free(memory, s, p);
        free(memory, s, q);
    }
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal));
    unsigned char* const p = block(memory, s);
    fill<<<1, 128, 0, s.get()>>>(p, size);
    free(memory, s, p);
    unsigned char* const q = block(memory, s); // perhaps the same memory
    fill<<<1, 128, 0, s.get()>>>(q, size);
    free(memory, s, q);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cudaGraphExec_t run = nullptr;
    cuda_check(cudaGraphInstantiate(&run, graph, 0));
    for (int i = 0; i != 2; ++i) { cuda_check(cudaGraphLaunch(run, s.get())); }
    finish(s);
    cuda_check(cudaGraphExecDestroy(run));
    cuda_check(cudaGraphDestroy(graph));
    if constexpr (forgetting_resource<R>) { memory.forget_captures(); }
    memory.trim();
    // The memory of the graph was returned to CUDA, which may allocate it again.
    void* other = nullptr;
    cuda_check(cudaMalloc(&other, size));
    fill<<<1, 128, 0, s.get()>>>(static_cast<unsigned char*>(other), size);
    unsigned char* const last = block(memory, s);
    fill<<<1, 128, 0, s.get()>>>(last, size);
    finish(s);
    cuda_check(cudaFree(other));
    free(memory, s, last);
}

/// Printed before the fault, after which CUDA may fail.
void print(void const* p, bool known) {
    std::printf("block 0x%llx known %d\n",
                static_cast<unsigned long long>(reinterpret_cast<std::size_t>(p)), int{known});
    std::fflush(stdout);
}

template <class R>
bool plant(R memory, std::string_view fault) {
    cuda_stream const    s;
    unsigned char* const before = block(memory, s);
    unsigned char*       p      = block(memory, s);
    unsigned char* const after  = block(memory, s);
    for (unsigned char* const each : {before, p, after}) {
        fill<<<1, 128, 0, s.get()>>>(each, size);
    }
    finish(s);
    bool const known = memory.observer().attached();
    if (fault == "none") {
        print(p, known);
        use_well(memory, s);
    } else if (fault == "overrun") {
        print(p, known);
        write_byte<<<1, 1, 0, s.get()>>>(p + size);
    } else if (fault == "freed") {
        print(p, known);
        free(memory, s, p);
        write_byte<<<1, 1, 0, s.get()>>>(p);
    } else if (fault == "uninitialised") {
        free(memory, s, p);
        p = block(memory, s); // perhaps the same memory: it was written before the free
        print(p, known);
        read_byte<<<1, 1, 0, s.get()>>>(p, after);
    } else {
        return false;
    }
    finish(s);
    if (fault != "freed") { free(memory, s, p); }
    free(memory, s, before);
    free(memory, s, after);
    return true;
}

template <class Source>
auto over(Source source) {
    return observed{std::move(source), nvtx_memory{}};
}
auto ordered() { return over(stream_ordered{cuda_resource{}}); }

struct subject {
    char const* name;
    bool (*run)(std::string_view fault);
};
constexpr bool graphs     = true;
subject const  subjects[] = {
    {"pool", [](auto f) { return plant(pool{ordered(), {.graphs = graphs}}, f); }},
    {"arena", [](auto f) { return plant(arena{ordered(), {.count = 2, .graphs = graphs}}, f); }},
    {"slab", [](auto f) { return plant(slab{ordered(), 4_KiB, {.graphs = graphs}}, f); }},
    {"binned",
      [](auto f) { return plant(binned{ordered(), {.largest = 64_KiB, .graphs = graphs}}, f); }},
    {"binned_large", // larger requests are passed to the upstream
      [](auto f) { return plant(binned{ordered(), {.largest = 512, .graphs = graphs}}, f); }},
    {"monotonic", [](auto f) { return plant(monotonic{ordered(), {.graphs = graphs}}, f); }},
    {"pool_pages",
      [](auto f) { return plant(pool{over(virtual_resource{}), {.graphs = graphs}}, f); }},
    {"pool_remap",
      [](auto f) {
         return plant(pool{over(virtual_resource{}), {.graphs = graphs, .remap = true}}, f);
     }},
    {"binned_of_pool",
      [](auto f) {
         return plant(
             binned{pool{ordered(), {.graphs = graphs}}, {.largest = 64_KiB, .graphs = graphs}}, f);
     }},
    {"both_notify",
      [](auto f) {
         return plant(pool{stream_ordered{over(cuda_resource{})}, {.graphs = graphs}}, f);
     }},
};

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && argv[1] == std::string{"--list"}) {
        for (subject const& each : subjects) { std::puts(each.name); }
        return 0;
    }
    for (subject const& each : subjects) {
        if (argc == 3 && argv[1] == std::string{each.name}) { return each.run(argv[2]) ? 0 : 2; }
    }
    std::fputs("planted --list | planted POOL none|overrun|freed|uninitialised\n", stderr);
    return 2;
}
