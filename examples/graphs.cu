// SPDX-License-Identifier: Apache-2.0
// A CUDA graph whose temporary memory comes from a pool: captured once, launched many times.

// [graph]
#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

__global__ void increment(int* counter) { ++*counter; }

int main() {
    using namespace vram;
    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory{{.graphs = true}};
    auto                                counter = make_array<int>(memory, stream, 1);
    counter.fill(std::byte{0});

    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    {
        buffer scratch{memory, stream, sizeof(int)}; // freed during the capture: kept for the graph
        increment<<<1, 1, 0, stream>>>(counter.data());
        cuda_check(cudaMemcpyAsync(scratch.data(), counter.data(), sizeof(int), cudaMemcpyDefault,
                                   stream));
    }
    cudaGraph_t     graph    = nullptr;
    cudaGraphExec_t launched = nullptr;
    cuda_check(cudaStreamEndCapture(stream, &graph));
    cuda_check(cudaGraphInstantiate(&launched, graph, 0));
    for (int i = 0; i < 100; ++i) { cuda_check(cudaGraphLaunch(launched, stream)); }
    bool const right = counter.get(0) == 100; // waits for the stream

    cuda_check(cudaGraphExecDestroy(launched));
    cuda_check(cudaGraphDestroy(graph));
    memory.forget_captures(); // no graph is launched any more: its memory is free again
    return right ? 0 : 1;
}
// [/graph]
