// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The machine that an example runs on: the GPU if there is one, otherwise the simulated device.
/// The examples are written once for both.

#include "cli.hpp" // failure

#include <vram/base/bytes.hpp> // bytes
#include <vram/sim/sim.hpp>

#if defined VRAM_EXAMPLE_CUDA
#include <vram/cuda/cuda.hpp>
#endif

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

/// The requirements of an example. The defaults of the simulated device are those of an H200.
struct machine_options {
    std::size_t capacity = 150'110'011'392; ///< bytes of device memory
    bool        backed   = true;            ///< true if simulated device memory has contents
};

/// The time of the kernels on a device.
struct kernel_time {
    std::uint64_t busy_ns          = 0;
    std::uint64_t beside_copies_ns = 0; ///< part of it during which a copy ran too
};

/// A simulated node for the duration of a program.
class on_sim {
public:
    using platform         = vram::sim_platform;
    using resource         = vram::sim_resource;
    using async_resource   = vram::sim_async_resource;
    using virtual_resource = vram::sim_virtual_resource;

    explicit on_sim(machine_options const& options)
        : capacity_{options.capacity},
          node_{{.capacity         = options.capacity,
                 .backed           = options.backed,
                 .host_bandwidth   = 55'000'000'000,
                 .device_bandwidth = 4'800'000'000'000,
                 // Without memory there is no access to check, and a pool's events take time.
                 .checks = {.races = options.backed, .bounds = options.backed}}} {}

    [[nodiscard]] std::string name() const {
        return fmt::format("the simulated device ({})", vram::bytes{capacity_}.text().c_str());
    }
    /// Advances the simulated host's clock by the time to read `bytes` from a file.
    void host_reads(std::size_t bytes) {
        node_.work(vram::sim_transfer_time(bytes, file_bandwidth));
    }

    [[nodiscard]] std::optional<kernel_time> kernels() {
        vram::sim_figures const did = node_.figures();
        auto const ns = [](vram::sim_time t) { return static_cast<std::uint64_t>(t.count()); };
        return kernel_time{ns(did.busy(vram::sim_engine::compute)), ns(did.overlap())};
    }

    [[nodiscard]] vram::sim_node& node() noexcept { return node_; }

private:
    // Bytes per second from the page cache, for one thread.
    static constexpr std::size_t file_bandwidth = 10'000'000'000;

    std::size_t    capacity_;
    vram::sim_node node_;
};

#if defined VRAM_EXAMPLE_CUDA
/// The current GPU.
class on_cuda {
public:
    using platform         = vram::cuda_platform;
    using resource         = vram::cuda_resource;
    using async_resource   = vram::cuda_async_resource;
    using virtual_resource = vram::virtual_resource;

    explicit on_cuda(machine_options const&) {}

    [[nodiscard]] std::string name() const {
        cudaDeviceProp properties{};
        vram::cuda_check(cudaGetDeviceProperties(&properties, 0));
        return fmt::format("the GPU ({}, {})", properties.name,
                           vram::bytes{properties.totalGlobalMem}.text().c_str());
    }

    void host_reads(std::size_t) noexcept {} // takes real time

    /// Returns nothing: the duration of kernels on a GPU needs a profiler.
    [[nodiscard]] static std::optional<kernel_time> kernels() { return {}; }

    /// Returns the reason if there is no usable GPU, or an empty string.
    [[nodiscard]] static std::string missing() {
        int               count = 0;
        cudaError_t const error = cudaGetDeviceCount(&count);
        if (error != cudaSuccess) { return cudaGetErrorString(error); }
        return count > 0 ? "" : "the driver lists none";
    }
};
#endif

/// Runs `program` on the requested machine: "sim", "cuda", or "auto" for the GPU if there is one.
template <class Program>
int on_machine(std::string const& kind, machine_options const& options, Program program) {
#if defined VRAM_EXAMPLE_CUDA
    std::string const missing = kind == "sim" ? "" : on_cuda::missing();
    if (kind == "cuda" && !missing.empty()) {
        throw cli::failure{cli::bad_usage, "there is no GPU: " + missing};
    }
    if (kind != "sim" && missing.empty()) {
        on_cuda machine{options};
        return program(machine);
    }
#else
    if (kind == "cuda") {
        throw cli::failure{cli::bad_usage, "this build has no CUDA: only the simulated device"};
    }
#endif
    on_sim machine{options};
    return program(machine);
}

/// Adds the option that selects the machine.
inline CLI::Option* add_device(CLI::App& app, std::string& kind) {
    return app.add_option("--device", kind, "auto (the GPU if there is one), sim or cuda")
        ->check(CLI::IsMember({"auto", "sim", "cuda"}))
        ->capture_default_str();
}
