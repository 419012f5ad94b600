// SPDX-License-Identifier: Apache-2.0
// RMM's vectors with memory of vram and of RMM's own pool, as a library that is loaded if RMM is
// installed.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/rmm.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include "../support/library_work.hpp"
#include "../support/timing.hpp"

#include <rmm/device_uvector.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstddef>
#include <random>
#include <vector>

namespace bench {

namespace {

/// Replaces random vectors of 1 KiB to 1 MiB, each doubling with equal weight.
template <class Memory>
double churn(Memory memory, std::size_t live, std::size_t operations) {
    using vector = rmm::device_uvector<std::byte>;
    vram::cuda_stream const stream;
    ::cuda::stream_ref      on{stream.view().get()};
    std::mt19937            draw{7};
    auto const              size = [&] {
        std::size_t const least = std::size_t{1024} << (draw() % 10);
        return least + draw() % least;
    };
    // Nothing is drawn while the clock runs.
    std::vector<std::size_t> sizes(operations), at(operations);
    for (std::size_t i = 0; i != operations; ++i) { sizes[i] = size(), at[i] = draw() % live; }
    std::vector<vector> vectors;
    for (std::size_t i = 0; i != live; ++i) { vectors.emplace_back(size(), on, memory); }
    auto const replace = [&] {
        for (std::size_t i = 0; i != operations; ++i) {
            vectors[at[i]] = vector{0, on, memory}; // frees the old one first
            vectors[at[i]] = vector{sizes[i], on, memory};
        }
    };
    replace(); // warm-up
    auto const start = clock::now();
    replace();
    double const ns = ns_since(start) / static_cast<double>(operations);
    stream.synchronize();
    return ns;
}

} // namespace

extern "C" void bench_add_vectors(std::vector<vector_subject>* all) {
    all->push_back({"pool<stream_ordered<cuda_resource>>", "a stack of vram, by as_rmm",
                    [](std::size_t live, std::size_t operations) {
                        vram::pool<vram::stream_ordered<vram::cuda_resource>> memory;
                        return churn(vram::as_rmm(memory), live, operations);
                    }});
    all->push_back(
        {"rmm::pool", "RMM's pool, from 1 MiB", [](std::size_t live, std::size_t operations) {
             rmm::mr::pool_memory_resource memory{rmm::mr::cuda_memory_resource{},
                                                  std::size_t{1} << 20};
             return churn(rmm::device_async_resource_ref{memory}, live, operations);
         }});
}

} // namespace bench
