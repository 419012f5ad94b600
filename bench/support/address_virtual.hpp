// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_virtual` hands out addresses whose blocks can grow: the simulated device's virtual
/// memory with its own cost taken away.

#include "address_resource.hpp" // address_platform

#include <vram/base/bytes.hpp>          // literals
#include <vram/concepts/expandable.hpp> // the concept that the proof below checks
#include <vram/source/virtual_options.hpp> // virtual_options

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uintptr_t

namespace bench {

using namespace vram::literals;

/// Blocks of addresses so far from each other that each can grow as it likes.
///
/// Failure   never; a process has addresses for 64 blocks
/// Threads   any
/// Streams   none
/// Cost      one atomic addition
template <streams_are Pace = streams_are::idle>
class address_virtual {
public:
    using platform   = address_platform<Pace>;
    using stream     = typename platform::stream;
    using properties = vram::property_set<vram::device_accessible>;

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = vram::default_alignment) noexcept {
        return try_allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t = vram::default_alignment) noexcept {
        if (bytes == 0) { return nullptr; }
        return reinterpret_cast<void*>(next_.fetch_add(apart, std::memory_order_relaxed));
    }
    void deallocate_sync(void*, std::size_t, std::size_t = vram::default_alignment) noexcept {}

    [[nodiscard]] std::size_t page_size() const noexcept { return page; }
    bool        extend(void*, std::size_t, std::size_t) noexcept { return true; }
    std::size_t shrink(void*, std::size_t, std::size_t less) noexcept { return less; }

    friend bool operator==(address_virtual const&, address_virtual const&) = default;

private:
    static constexpr std::size_t              page  = vram::virtual_options{}.handle_size;
    static constexpr std::uintptr_t           apart = 1_TiB;
    static inline std::atomic<std::uintptr_t> next_{apart};
};

static_assert(vram::expandable_resource<address_virtual<>>);
static_assert(vram::fallible_resource<address_virtual<>>);

} // namespace bench
