// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator through its C++ library, as a library that is loaded if PyTorch is
// installed.

#include <vram/cuda/cuda_stream.hpp> // cuda_stream

#include "../support/workloads.hpp"
#include "found.hpp"
#include "occupied.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#if defined BENCH_TORCH_SETTINGS_IN_CORE
#include <c10/core/AllocatorConfig.h>
#elif __has_include(<c10/cuda/CUDAAllocatorConfig.h>)
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif

namespace bench {

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

void set_expandable(bool on) {
    std::string const text = on ? "expandable_segments:True" : "expandable_segments:False";
#if defined BENCH_TORCH_SETTINGS_IN_CORE
    c10::CachingAllocator::setAllocatorSettings(text);
#else
    caching::setAllocatorSettings(text);
#endif
}

/// The single allocator of the process, emptied before and after.
template <bool Expandable>
class torch_memory {
public:
    using stream = cudaStream_t;

    explicit torch_memory(set_up const& how) : streams_(how.streams) {
        if (!caching::get()->initialized()) { caching::init(vram::cuda_device::count()); }
        caching::emptyCache();
        set_expandable(Expandable);
        caching::resetPeakStats(device);
    }
    torch_memory(torch_memory&&) = delete;
    ~torch_memory() {
        (void)cudaDeviceSynchronize();
        try {
            caching::emptyCache();
        } catch (...) {} // the next subject's values will show it
    }

    [[nodiscard]] stream stream_at(unsigned i) const { return streams_[i].get(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes) {
        return caching::raw_alloc_with_stream(bytes, s);
    }
    void deallocate(stream, void* p, std::size_t) { caching::raw_delete(p); }

    [[nodiscard]] vram::memory_usage usage() const {
        // Index 0 is the sum of all kinds.
        auto const bytes = caching::getDeviceStats(device).reserved_bytes[0];
        return {.reserved      = static_cast<std::size_t>(bytes.current),
                .peak_reserved = static_cast<std::size_t>(bytes.peak)};
    }
    void trim() {
        vram::cuda_check(cudaDeviceSynchronize());
        caching::emptyCache();
    }
    static constexpr bool counts_events = false;

private:
    static constexpr int device = 0;

    std::vector<vram::cuda_stream> streams_;
};

template <bool Expandable>
subject make(std::string name, std::string about) {
    using memory = torch_memory<Expandable>;
    return make_subject<memory, occupied<memory>>(std::move(name), std::move(about), role::peer,
                                                  {.any_stream = false});
}

} // namespace

extern "C" void bench_add_peer(found* all) {
    all->subjects.push_back(make<false>("torch", "PyTorch's caching allocator"));
    all->subjects.push_back(make<true>("torch_expandable", "the same, with expandable segments"));
}

} // namespace bench
