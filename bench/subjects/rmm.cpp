// SPDX-License-Identifier: Apache-2.0
// RMM's pool and arena, as a library that is loaded if RMM is installed.

#include <vram/cuda/cuda_memory_info.hpp> // cuda_memory_info
#include <vram/cuda/cuda_stream.hpp>      // cuda_stream

#include "../support/workloads.hpp"
#include "found.hpp"
#include "occupied.hpp"

#include <rmm/aligned.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cuda/stream_ref>

namespace bench {

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Returns the size of a resource that never grows: four times the live bytes, if there is so much.
std::size_t all_at_once(set_up const& how) {
    std::size_t const free  = vram::cuda_memory_info(vram::cuda_device::current()).free;
    std::size_t const most  = free / 8 * 7;
    std::size_t const least = 8192 * mebibyte;
    return std::min(most, std::max(least, how.room * 4)) / mebibyte * mebibyte;
}

/// An RMM resource and its streams.
template <class Resource>
class rmm_memory {
public:
    using stream = ::cuda::stream_ref;

    rmm_memory(set_up const& how, std::size_t initial)
        : streams_(how.streams), memory_{rmm::mr::cuda_memory_resource{}, initial} {}

    [[nodiscard]] stream stream_at(unsigned i) const { return stream{streams_[i].get()}; }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes) {
        return memory_.allocate(s, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
    }
    void deallocate(stream s, void* p, std::size_t bytes) {
        memory_.deallocate(s, p, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
    }

protected:
    std::vector<vram::cuda_stream> streams_;
    Resource                       memory_;
};

/// Starts with 1 MiB and grows on demand.
class pool_memory : public rmm_memory<rmm::mr::pool_memory_resource> {
public:
    explicit pool_memory(set_up const& how) : rmm_memory{how, std::max(mebibyte, how.ample)} {}

    /// The pool never shrinks, so its size is its peak.
    [[nodiscard]] vram::memory_usage usage() const {
        std::size_t const size = memory_.pool_size();
        return {.reserved = size, .peak_reserved = size};
    }
    static constexpr bool counts_events = false;
};

class large_pool_memory : public rmm_memory<rmm::mr::pool_memory_resource> {
public:
    explicit large_pool_memory(set_up const& how) : rmm_memory{how, all_at_once(how)} {}
};

class arena_memory : public rmm_memory<rmm::mr::arena_memory_resource> {
public:
    explicit arena_memory(set_up const& how) : rmm_memory{how, all_at_once(how)} {}
};

} // namespace

extern "C" void bench_add_peer(found* all) {
    all->subjects.push_back(make_subject<pool_memory, occupied<pool_memory>>(
        "rmm::pool", "RMM's pool, from 1 MiB", role::peer));
    all->subjects.push_back(make_subject<large_pool_memory, large_pool_memory, true>(
        "rmm::pool_at_once", "the same, never growing; its footprint is the span it uses",
        role::peer, {.replay = true}));
    all->subjects.push_back(make_subject<arena_memory, occupied<arena_memory>, true>(
        "rmm::arena", "RMM's arena; its footprint is the span it uses", role::peer));
}

} // namespace bench
