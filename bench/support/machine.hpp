// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The machine of the transfer benchmarks: the GPU, in real time, or the simulated device, in
/// simulated time.

#include "profile.hpp" // profiled

#include <vram/sim/sim.hpp>

#if defined VRAM_BENCH_CUDA
#include <vram/cuda/cuda.hpp>
#endif

#include <cli.hpp> // failure

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace bench {

/// A simulated host and link with the speeds of an H200's. Memory has no contents, so that
/// gigabytes cost nothing.
class on_sim {
public:
    using platform               = vram::sim_platform;
    static constexpr bool is_gpu = false;

    explicit on_sim(std::size_t capacity)
        : node_{profiled({.capacity            = capacity,
                          .pinned_capacity     = capacity,
                          .backed              = false,
                          .host_bandwidth      = 55'500'000'000,
                          .pageable_bandwidth  = 8'400'000'000,
                          .host_copy_bandwidth = 7'100'000'000})} {}

    [[nodiscard]] static std::string name() {
        if (!profile().empty()) { return "the simulated " + profile() + ", in simulated time"; }
        return "the simulated device (link 55.5 GB/s, a host thread 7.1 GB/s), in simulated time";
    }

    [[nodiscard]] vram::sim_node& node() noexcept { return node_; }

private:
    vram::sim_node node_;
};

#if defined VRAM_BENCH_CUDA
/// The current GPU.
class on_cuda {
public:
    using platform               = vram::cuda_platform;
    static constexpr bool is_gpu = true;

    explicit on_cuda(std::size_t) {}

    [[nodiscard]] static std::string name() {
        cudaDeviceProp properties{};
        vram::cuda_check(cudaGetDeviceProperties(&properties, 0));
        return fmt::format("the GPU ({})", properties.name);
    }
    /// Returns the reason if there is no usable GPU, or an empty string.
    [[nodiscard]] static std::string missing() {
        int               count = 0;
        cudaError_t const error = cudaGetDeviceCount(&count);
        if (error != cudaSuccess) { return cudaGetErrorString(error); }
        return count > 0 ? "" : "the driver lists none";
    }
};
#endif

/// Runs `program` on the requested machine: sim, cuda, or auto for the GPU if there is one. The
/// simulated one has `capacity` bytes of host and of device memory.
template <class Program>
int on_machine(std::string const& kind, std::size_t capacity, Program program) {
#if defined VRAM_BENCH_CUDA
    std::string const missing = kind == "sim" ? "" : on_cuda::missing();
    if (kind == "cuda" && !missing.empty()) {
        throw cli::failure{cli::bad_usage, "there is no GPU: " + missing};
    }
    if (kind != "sim" && missing.empty()) {
        on_cuda machine{capacity};
        return program(machine);
    }
#else
    if (kind == "cuda") {
        throw cli::failure{cli::bad_usage, "this build has no CUDA: only the simulated device"};
    }
#endif
    on_sim machine{capacity};
    return program(machine);
}

} // namespace bench
