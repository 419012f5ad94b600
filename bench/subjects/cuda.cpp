// SPDX-License-Identifier: Apache-2.0
// The stacks on the GPU, and the allocators of the driver.

#include <vram/base/bytes.hpp> // literals
#include <vram/cuda/cuda.hpp>

#include "found.hpp"
#include "occupied.hpp"
#include "stacks.hpp"

#include <fmt/format.h>

#include <cstdlib> // abort

namespace bench {

using namespace vram::literals;

namespace {

/// The stacks in addition to those over plain memory.
template <class Source>
using cuda_stacks = std::tuple< //
    entry<vram::pool<vram::cuda_async_resource>>>;

/// A pool over virtual memory with larger handles than the default.
template <std::size_t Handle>
struct in_pieces {
    struct pool : vram::pool<vram::virtual_resource> {
        explicit pool(vram::pool_options o)
            : vram::pool<vram::virtual_resource>{
                  vram::virtual_resource{vram::virtual_options{.handle_size = Handle}}, o} {}
        pool() : pool{vram::pool_options{}} {}
    };
    using memory                = stack_memory<pool>;
    static constexpr role   is  = role::other;
    static constexpr traits can = {.growth = true};
    static std::string      name() {
        return fmt::format("pool<virtual_resource>({})", vram::bytes{Handle}.text().c_str());
    }
};
using pieces = std::tuple<in_pieces<4_MiB>, in_pieces<8_MiB>, in_pieces<20_MiB>>;

/// Streams for an allocator that is called directly.
class cuda_streams {
public:
    using stream = cudaStream_t;

    explicit cuda_streams(unsigned count) : streams_(count) {}
    [[nodiscard]] stream stream_at(unsigned i) const { return streams_[i].get(); }

protected:
    [[noreturn]] static void fail(cudaError_t status, std::size_t bytes) {
        vram::cuda_check(status, {.asked = bytes});
        // Not reached: the status is an error.
        std::abort();
    }

private:
    std::vector<vram::cuda_stream> streams_;
};

class cuda_malloc_memory : public cuda_streams {
public:
    explicit cuda_malloc_memory(set_up const& how) : cuda_streams{how.streams} {}

    [[nodiscard]] void* allocate(stream, std::size_t bytes) {
        void* p = nullptr;
        if (cudaError_t const status = cudaMalloc(&p, bytes)) { fail(status, bytes); }
        return p;
    }
    void deallocate(stream, void* p, std::size_t) { (void)cudaFree(p); }
};

/// A pool of the driver that keeps freed memory.
class cuda_malloc_async_memory : public cuda_streams {
public:
    explicit cuda_malloc_async_memory(set_up const& how)
        : cuda_streams{how.streams},
          pool_{vram::cuda_device::current(), {.initial_size = how.ample}} {}
    // All frees are complete after this.
    ~cuda_malloc_async_memory() { (void)cudaDeviceSynchronize(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes) {
        void* p = nullptr;
        if (cudaError_t const status = cudaMallocFromPoolAsync(&p, bytes, pool_.get(), s)) {
            fail(status, bytes);
        }
        return p;
    }
    void deallocate(stream s, void* p, std::size_t) { (void)cudaFreeAsync(p, s); }

    [[nodiscard]] vram::memory_usage usage() const { return pool_.usage(); }
    void                             trim() {
        vram::cuda_check(cudaDeviceSynchronize());
        pool_.trim();
    }

    static constexpr bool counts_events = false;

private:
    vram::cuda_pool pool_;
};

} // namespace

std::string no_cuda() {
    int               count  = 0;
    cudaError_t const status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) { return cudaGetErrorString(status); }
    return count > 0 ? "" : "the driver lists none";
}

std::string cuda_name() {
    cudaDeviceProp properties{};
    vram::cuda_check(cudaGetDeviceProperties(&properties, 0));
    // The driver's threads start now, before threads are bound to cores.
    vram::cuda_check(cudaFree(nullptr));
    return properties.name;
}

void add_cuda(found& all) {
    using source = vram::cuda_resource;
    using pools  = stacks<source, vram::virtual_resource>;
    add_stacks<pools, occupied_stacks<pools>>(all.subjects, "on device memory");
    add_stacks<cuda_stacks<source>, occupied_stacks<cuda_stacks<source>>>(all.subjects,
                                                                          "on the driver's pool");
    add_stacks<pieces>(all.subjects, "on device memory, in larger pieces: growing alone");
    all.subjects.push_back(
        make_subject<cuda_malloc_memory>("cudaMalloc", "the driver's", role::peer, {.slow = true}));
    all.subjects.push_back(
        make_subject<cuda_malloc_async_memory, occupied<cuda_malloc_async_memory>>(
            "cudaMallocAsync", "the driver's pool, keeping all it has", role::peer,
            {.any_stream = false}));
}

} // namespace bench
