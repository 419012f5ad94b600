// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `feeding` has the machines of the loader's benchmark, and the loops that it compares: each
/// brings batches to the device and uses them there.

#include "profile.hpp" // profiled
#include "subject.hpp" // figures

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#ifdef VRAM_BENCH_NVCC
#include <vram/cuda/cuda.hpp>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#ifdef VRAM_BENCH_NVCC
/// Keeps `stream` busy for `ns` nanoseconds (defined in loader.cu).
void spin_on_device(vram::cuda_stream_view stream, std::uint64_t ns);
#endif

namespace bench {

/// One cell of the benchmark: the duration of each stage alone.
struct feed_case {
    std::string   name      = {};
    std::string   about     = {};
    std::size_t   bytes     = 0;
    double        fill      = 0;     ///< duration of a fill by one producer, in copies of a batch
    double        kernel    = 0;     ///< duration of the kernel, in copies of a batch
    double        loop      = 0;     ///< duration of the loop's own work, in copies of a batch
    std::uint64_t kernel_ns = 0;     ///< duration in ns instead of `kernel`, if not 0
    bool          memcpy    = false; ///< fill by copying pageable memory instead of `fill`
    std::size_t   producers = 1;
};

/// Number of calls of `operator new` in this process.
inline std::atomic<std::uint64_t> host_allocations{0};

/// A resource that counts its allocations.
template <class R>
struct counting : R {
    counting() : R() {}

    static inline std::atomic<std::uint64_t> asked{0};

    void* allocate_sync(std::size_t bytes, std::size_t alignment = vram::default_alignment) {
        ++asked;
        return R::allocate_sync(bytes, alignment);
    }
};

/// The simulated node: 55 GB/s to the device, exact times.
class feed_on_sim {
public:
    using platform             = vram::sim_platform;
    static constexpr bool real = false;

    explicit feed_on_sim(bool trace = false)
        : node_{profiled({.capacity       = vram::operator""_GiB(16),
                          .backed         = false,
                          .host_bandwidth = 55'000'000'000,
                          .copy_latency   = vram::sim_time{0},
                          .trace          = trace})} {}

    [[nodiscard]] static std::string name() {
        return profile().empty() ? "the simulated device, 55 GB/s" : "the simulated " + profile();
    }
    [[nodiscard]] std::uint64_t now() { return static_cast<std::uint64_t>(node_.now().count()); }
    void work(std::uint64_t ns) { node_.work(vram::sim_time{static_cast<std::int64_t>(ns)}); }
    /// The time in which a thread copies `bytes`: 10 GB/s.
    void host_copy(std::byte*, std::byte const*, std::size_t bytes) {
        node_.work(vram::sim_transfer_time(bytes, 10'000'000'000));
    }
    void kernel(vram::sim_stream_view s, void const* data, std::size_t bytes, std::uint64_t ns) {
        vram::sim_launch(s, {.name     = "train",
                             .reads    = {{data, bytes}},
                             .duration = vram::sim_time{static_cast<std::int64_t>(ns)}});
    }
    [[nodiscard]] std::uint64_t host_waits() {
        auto const f = node_.figures();
        return f.host_waits + f.queries;
    }
    [[nodiscard]] vram::sim_node& node() noexcept { return node_; }

private:
    vram::sim_node node_;
};

#ifdef VRAM_BENCH_NVCC
/// The GPU.
class feed_on_cuda {
public:
    using platform             = vram::cuda_platform;
    static constexpr bool real = true;

    [[nodiscard]] static std::string name() {
        cudaDeviceProp properties{};
        vram::cuda_check(cudaGetDeviceProperties(&properties, 0));
        return properties.name;
    }
    [[nodiscard]] static std::uint64_t now() { return vram::platform_clock<platform>::now(); }
    static void                        work(std::uint64_t ns) {
        for (std::uint64_t const end = now() + ns; now() < end;) {}
    }
    static void host_copy(std::byte* to, std::byte const* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
    }
    static void kernel(vram::cuda_stream_view s, void const*, std::size_t, std::uint64_t ns) {
        spin_on_device(s, ns);
    }
    [[nodiscard]] static std::uint64_t host_waits() { return 0; }
};
#endif

/// One loop on one machine.
template <class Machine>
class feeder {
    using platform = typename Machine::platform;
    using stream   = typename platform::own_stream;
    using device   = counting<typename platform::device_resource>;
    using pinned   = counting<typename platform::pinned_resource>;

public:
    feeder(Machine& machine, feed_case const& c, std::size_t batches)
        : machine_{machine},
          case_{c},
          batches_{batches},
          from_(c.memcpy && Machine::real ? c.bytes : 0) {
        copy_ns_   = copy_alone();
        fill_ns_   = static_cast<std::uint64_t>(c.fill * static_cast<double>(copy_ns_));
        kernel_ns_ = c.kernel_ns != 0
                         ? c.kernel_ns
                         : static_cast<std::uint64_t>(c.kernel * static_cast<double>(copy_ns_));
        loop_ns_   = static_cast<std::uint64_t>(c.loop * static_cast<double>(copy_ns_));
        if (c.memcpy) { fill_ns_ = memcpy_alone(); }
    }

    /// Runs a loader with these options.
    figures loader(vram::loader_options options) {
        options.batch_bytes = case_.bytes;
        options.producers   = case_.producers;
        auto const source   = [this](std::span<std::byte> to, std::size_t index) {
            return index < batches_ ? fill(to) : std::size_t{0};
        };
        vram::loader load{source, use_.view(), device{}, pinned{}, options};
        return measure([&] {
            std::uint64_t in_steps = 0;
            auto          at       = load.begin();
            for (;;) {
                std::uint64_t const since = machine_.now();
                bool const          over  = at == load.end();
                in_steps += machine_.now() - since;
                if (over) { break; }
                use(at->data());
                std::uint64_t const done = machine_.now();
                ++at;
                in_steps += machine_.now() - done;
            }
            auto const s = load.statistics();
            waits_ += Machine::real ? s.host_waits : 0;
            step_ns_ = in_steps - std::min(in_steps, s.stall_ns);
        });
    }

    /// Runs fill, copy, use and wait one after the other.
    figures serial(bool pin) {
        block<pinned>          host{pin ? case_.bytes : 0};
        std::vector<std::byte> pageable(pin ? 0 : case_.bytes);
        std::byte* const       from = pin ? host.data : pageable.data();
        block<device>          to{case_.bytes};
        return measure([&] {
            for (std::size_t i = 0; i < batches_; ++i) {
                fill({from, case_.bytes});
                platform::copy(use_.view(), to.data, from, case_.bytes);
                use(to.data);
                platform::synchronize(use_.view());
                waits_ += Machine::real;
            }
        });
    }

    /// Runs a loop with two buffers and a second stream, but without a second thread: the loop
    /// fills the next batch while the device is busy.
    figures side_stream() {
        using event = typename platform::event;
        block<pinned> host[2]{block<pinned>{case_.bytes}, block<pinned>{case_.bytes}};
        block<device> to[2]{block<device>{case_.bytes}, block<device>{case_.bytes}};
        stream const  side{platform::current_device()};
        event      copied[2]{event{platform::current_device()}, event{platform::current_device()}};
        event      used[2]{event{platform::current_device()}, event{platform::current_device()}};
        auto const preload = [&](std::size_t i) {
            std::size_t const at = i % 2;
            platform::synchronize(copied[at]); // the copy from this buffer
            waits_ += Machine::real;
            fill({host[at].data, case_.bytes});
            platform::wait(side.view(), used[at]);
            platform::copy(side.view(), to[at].data, host[at].data, case_.bytes);
            platform::record(copied[at], side.view());
        };
        figures out = measure([&] {
            preload(0);
            for (std::size_t i = 0; i < batches_; ++i) {
                platform::wait(use_.view(), copied[i % 2]);
                use(to[i % 2].data);
                platform::record(used[i % 2], use_.view());
                if (i + 1 < batches_) { preload(i + 1); }
            }
        });
        return out;
    }

    [[nodiscard]] std::uint64_t slowest_ns() const {
        return std::max({fill_ns_ / case_.producers, copy_ns_, kernel_ns_, loop_ns_});
    }
    [[nodiscard]] std::uint64_t fill_ns() const noexcept { return fill_ns_; }
    [[nodiscard]] std::uint64_t copy_ns() const noexcept { return copy_ns_; }
    [[nodiscard]] std::uint64_t kernel_ns() const noexcept { return kernel_ns_; }
    [[nodiscard]] std::uint64_t loop_ns() const noexcept { return loop_ns_; }

private:
    template <class R>
    struct block {
        explicit block(std::size_t n)
            : bytes{n}, data{static_cast<std::byte*>(R{}.allocate_sync(n))} {}
        block(block&&) = delete;
        ~block() { R{}.deallocate_sync(data, bytes); }

        std::size_t bytes;
        std::byte*  data;
    };

    std::size_t fill(std::span<std::byte> to) {
        if (case_.memcpy) {
            machine_.host_copy(to.data(), from_.data(), to.size());
        } else {
            machine_.work(fill_ns_);
        }
        return to.size();
    }

    /// Uses a batch: a kernel, and the loop's own work.
    void use(std::byte const* data) {
        machine_.kernel(use_.view(), data, case_.bytes, kernel_ns_);
        if (loop_ns_ != 0) { machine_.work(loop_ns_); }
    }
    /// Returns the best time of a few copies from pinned memory without other work.
    std::uint64_t copy_alone() {
        block<pinned> host{case_.bytes};
        block<device> to{case_.bytes};
        std::uint64_t best = ~std::uint64_t{0};
        for (int i = 0; i < 8; ++i) {
            std::uint64_t const since = machine_.now();
            platform::copy(use_.view(), to.data, host.data, case_.bytes);
            platform::synchronize(use_.view());
            best = std::min(best, machine_.now() - since);
        }
        return best;
    }
    std::uint64_t memcpy_alone() {
        block<pinned> host{case_.bytes};
        std::uint64_t best = ~std::uint64_t{0};
        for (int i = 0; i < 5; ++i) {
            std::uint64_t const since = machine_.now();
            machine_.host_copy(host.data, from_.data(), case_.bytes);
            best = std::min(best, machine_.now() - since);
        }
        return best;
    }

    /// Measures a loop over all batches, from its first step to the end of its last kernel.
    template <class Loop>
    figures measure(Loop loop) {
        platform::synchronize(platform::current_device());
        waits_ = step_ns_          = 0;
        std::uint64_t const asked  = device::asked + pinned::asked;
        std::uint64_t const heap   = host_allocations;
        std::uint64_t const waited = machine_.host_waits();
        std::uint64_t const since  = machine_.now();
        loop();
        waits_ += machine_.host_waits() - waited;
        std::uint64_t const from_heap = Machine::real ? host_allocations - heap : 0;
        std::uint64_t const taken     = device::asked + pinned::asked - asked + from_heap;
        platform::synchronize(use_.view());
        auto const took = static_cast<double>(machine_.now() - since);
        auto const n    = static_cast<double>(batches_);
        figures all{{"overlap_efficiency", static_cast<double>(slowest_ns()) * n / took, "ratio"},
                    {"ms_per_batch", took / n / 1e6, "ms"},
                    {"GBps", static_cast<double>(case_.bytes) * n / took, "GB/s"},
                    {"allocations_per_batch", static_cast<double>(taken) / n, "count"},
                    {"host_waits_per_batch", static_cast<double>(waits_) / n, "count"}};
        if (Machine::real && step_ns_ != 0) {
            all.push_back({"host_us_per_batch", static_cast<double>(step_ns_) / n / 1e3, "us"});
        }
        return all;
    }

    Machine&               machine_;
    feed_case              case_;
    std::size_t            batches_;
    std::vector<std::byte> from_;
    stream                 use_{platform::current_device()};
    std::uint64_t          copy_ns_   = 0;
    std::uint64_t          fill_ns_   = 0;
    std::uint64_t          kernel_ns_ = 0;
    std::uint64_t          loop_ns_   = 0;
    std::uint64_t          waits_     = 0;
    std::uint64_t          step_ns_   = 0;
};

} // namespace bench
