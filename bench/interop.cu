// SPDX-License-Identifier: Apache-2.0
// Thrust's sort and CUB's sum, with temporary storage from a stack, from the driver, and of their
// own.

#include "support/library_work.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/handle/array.hpp>
#include <vram/interop/cub.hpp>
#include <vram/interop/thrust_allocator.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <cub/device/device_reduce.cuh>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace bench {

namespace {

/// Temporary storage from a pool of the driver, for Thrust and CUB.
class driver_allocator {
public:
    using value_type = char;
    using pointer    = thrust::device_ptr<char>;

    driver_allocator(cudaMemPool_t pool, cudaStream_t stream) : pool_{pool}, stream_{stream} {}

    pointer allocate(std::size_t bytes) {
        void* p = nullptr;
        vram::cuda_check(cudaMallocFromPoolAsync(&p, bytes, pool_, stream_));
        return pointer{static_cast<char*>(p)};
    }
    void deallocate(pointer p, std::size_t) {
        vram::cuda_check(cudaFreeAsync(thrust::raw_pointer_cast(p), stream_));
    }

private:
    cudaMemPool_t pool_;
    cudaStream_t  stream_;
};

} // namespace

struct library_work::data {
    using key   = std::uint32_t;
    using stack = vram::pool<vram::stream_ordered<vram::cuda_resource>>;

    explicit data(std::size_t n) : host(n) {
        std::mt19937 draw{42};
        for (key& each : host) { each = static_cast<key>(draw()); }
        first.copy_from(host);
        stream.synchronize();
    }
    data(data&&) = delete;

    /// Sorts the keys; `policy` is an execution policy of Thrust.
    template <class Policy>
    void sort_with(Policy const& policy) {
        thrust::device_ptr<key> const begin{keys.data()};
        thrust::sort(policy, begin, begin + static_cast<std::ptrdiff_t>(host.size()));
    }
    /// Calls a phase of CUB's sum.
    cudaError_t sum_of(void* at, std::size_t& bytes) {
        key const* const in = keys.data();
        return cub::DeviceReduce::Sum(at, bytes, in, sum.data(), host.size(), raw);
    }

    vram::cuda_stream                  stream;
    cudaStream_t                       raw = stream.view().get();
    stack                              memory;
    vram::thrust_allocator<char>       ours{memory, stream};
    vram::cuda_pool                    kept{vram::cuda_device::current()};
    driver_allocator                   drivers{kept.get(), raw};
    driver_allocator                   plain{default_pool(), raw};
    std::vector<key>                   host;
    vram::array<key, stack&>           first{memory, stream, host.size()};
    vram::array<key, stack&>           keys{memory, stream, host.size()};
    vram::array<std::uint64_t, stack&> sum{memory, stream, 1};

private:
    static cudaMemPool_t default_pool() {
        cudaMemPool_t pool = nullptr;
        vram::cuda_check(
            cudaDeviceGetDefaultMemPool(&pool, vram::cuda_device::current().ordinal()));
        return pool;
    }
};

library_work::library_work(std::size_t keys) : data_{std::make_unique<data>(keys)} {}
library_work::~library_work() = default;

void library_work::shuffle() {
    vram::cuda_check(cudaMemcpyAsync(data_->keys.data(), data_->first.data(),
                                     data_->host.size() * sizeof(data::key),
                                     cudaMemcpyDeviceToDevice, data_->raw));
}

void library_work::sort(storage from) {
    data& d = *data_;
    using thrust::cuda::par_nosync; // which does not wait at the end
    switch (from) {
    case storage::vram: d.sort_with(par_nosync(d.ours).on(d.raw)); break;
    case storage::driver: d.sort_with(par_nosync(d.drivers).on(d.raw)); break;
    case storage::driver_plain: d.sort_with(par_nosync(d.plain).on(d.raw)); break;
    case storage::library: d.sort_with(par_nosync.on(d.raw)); break;
    }
}

void library_work::reduce(storage from) {
    data& d = *data_;
    if (from == storage::vram) {
        vram::cub_run(d.memory, d.stream,
                      [&](void* at, std::size_t& bytes) { return d.sum_of(at, bytes); });
        return;
    }
    std::size_t bytes = 0;
    vram::cuda_check(d.sum_of(nullptr, bytes));
    if (from == storage::library) {
        void* at = nullptr;
        vram::cuda_check(cudaMalloc(&at, bytes));
        vram::cuda_check(d.sum_of(at, bytes));
        vram::cuda_check(cudaFree(at));
        return;
    }
    driver_allocator& memory = from == storage::driver ? d.drivers : d.plain;
    auto const        at     = memory.allocate(bytes);
    vram::cuda_check(d.sum_of(thrust::raw_pointer_cast(at), bytes));
    memory.deallocate(at, bytes);
}

void library_work::wait() { data_->stream.synchronize(); }

bool library_work::is_sorted() {
    std::vector<data::key> sorted(data_->host.size());
    data_->keys.copy_to(sorted);
    wait();
    auto const sums = [](std::vector<data::key> const& all) {
        std::uint64_t first = 0, second = 0; // the keys are the same, in another order
        for (std::uint64_t const each : all) { first += each, second += each * each; }
        return std::pair{first, second};
    };
    return std::is_sorted(sorted.begin(), sorted.end()) && sums(sorted) == sums(data_->host);
}

bool library_work::is_sum() {
    std::uint64_t expected = 0;
    for (std::uint64_t const each : data_->host) { expected += each; }
    return data_->sum.get(0) == expected;
}

} // namespace bench
