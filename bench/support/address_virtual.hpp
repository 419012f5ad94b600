// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_virtual` hands out addresses whose blocks can grow: the simulated device's virtual
/// memory with its own cost taken away.

#include "address_resource.hpp" // address_platform

#include <vram/base/bytes.hpp>          // literals
#include <vram/base/lock.hpp>           // lock
#include <vram/concepts/expandable.hpp> // the concept that the proof below checks

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <map>
#include <utility> // exchange, swap
#include <vector>

namespace bench {

using namespace vram::literals;

/// Blocks of addresses so far from each other that each can grow as it likes.
///
/// Failure   never; a process has addresses for 127 blocks, ever
/// Threads   any
/// Streams   none
/// Cost      a note for each page
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
        void* const p = reinterpret_cast<void*>(next_.fetch_add(apart, std::memory_order_relaxed));
        fill(p, bytes);
        return p;
    }
    void deallocate_sync(void* p, std::size_t, std::size_t = vram::default_alignment) noexcept {
        auto const held = lock_.hold();
        pages_.erase(reinterpret_cast<std::uintptr_t>(p) / apart);
    }

    [[nodiscard]] std::size_t page_size() const noexcept { return page; }
    bool                      extend(void* p, std::size_t bytes, std::size_t more) noexcept {
        return fill(static_cast<std::byte*>(p) + bytes, more);
    }
    bool        widen(void*, std::size_t, std::size_t) noexcept { return true; }
    std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept {
        return drop(static_cast<std::byte*>(p) + bytes - less, less);
    }
    [[nodiscard]] std::size_t mapped(void const* q, std::size_t n) const noexcept {
        auto const  held = lock_.hold();
        std::size_t sum  = 0;
        range const r{q, n};
        for (std::size_t i = r.first; i < r.last; ++i) { sum += const_has(r.block, i) ? page : 0; }
        return sum;
    }
    bool fill(void* q, std::size_t n) noexcept {
        auto const  held = lock_.hold();
        range const r{q, n};
        for (std::size_t i = r.first; i < r.last; ++i) { has(r.block, i) = 1; }
        return true;
    }
    std::size_t drop(void* q, std::size_t n) noexcept {
        auto const  held = lock_.hold();
        std::size_t gone = 0;
        range const r{q, n};
        for (std::size_t i = r.first; i < r.last; ++i) {
            gone += std::exchange(has(r.block, i), char{0}) != 0 ? page : 0;
        }
        return gone;
    }
    std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept {
        auto const  held = lock_.hold();
        range const source{from, n}, taker{to, m};
        std::size_t moved = 0, i = source.first;
        for (std::size_t j = taker.first; j < taker.last; ++j) {
            if (has(taker.block, j) != 0) { continue; }
            while (i < source.last && has(source.block, i) == 0) { ++i; }
            if (i == source.last) { break; }
            std::swap(has(source.block, i), has(taker.block, j));
            moved += page;
        }
        return moved;
    }

    friend bool operator==(address_virtual const& a, address_virtual const& b) noexcept {
        return &a == &b;
    }

private:
    static constexpr std::size_t    page  = 4_MiB;
    static constexpr std::uintptr_t apart = 1_TiB;

    /// Pages of a block; those who ask take care that ranges begin and end with pages where that
    /// matters.
    struct range {
        std::uintptr_t block;
        std::size_t    first, last;
        range(void const* q, std::size_t n)
            : block{reinterpret_cast<std::uintptr_t>(q) / apart},
              first{reinterpret_cast<std::uintptr_t>(q) % apart / page},
              last{(reinterpret_cast<std::uintptr_t>(q) % apart + n + page - 1) / page} {}
    };
    char& has(std::uintptr_t block, std::size_t i) noexcept {
        std::vector<char>& all = pages_[block];
        if (all.size() <= i) { all.resize(2 * i + 1); }
        return all[i];
    }
    [[nodiscard]] bool const_has(std::uintptr_t block, std::size_t i) const {
        auto const found = pages_.find(block);
        return found != pages_.end() && i < found->second.size() && found->second[i] != 0;
    }

    static inline std::atomic<std::uintptr_t>   next_{apart};
    std::map<std::uintptr_t, std::vector<char>> pages_;
    vram::lock                                  lock_;
};

static_assert(vram::remappable_resource<address_virtual<>>);
static_assert(vram::fallible_resource<address_virtual<>>);

} // namespace bench
