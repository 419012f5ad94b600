// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_virtual` returns addresses of blocks that can grow: a stand-in for the simulated
/// device's virtual memory without its cost.

#include "address_resource.hpp" // address_platform

#include <vram/base/bytes.hpp>             // literals
#include <vram/base/core/lock.hpp>         // lock
#include <vram/concepts/expandable.hpp>    // the concept that the proof below checks
#include <vram/source/virtual_options.hpp> // handle_size

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <map>
#include <utility> // exchange
#include <vector>

namespace bench {

using namespace vram::literals;

/// Blocks of addresses, so far from each other that each can grow without limit.
///
/// Failure   None; a process has addresses for 127 blocks in its lifetime.
/// Threads   Any thread may call it.
/// Streams   Not stream-ordered.
/// Cost      One entry for each page.
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
        for (std::size_t i = r.first; i < r.last; ++i) {
            sum += const_at(r.block, i).mapped ? page : 0;
        }
        return sum;
    }
    bool fill(void* q, std::size_t n) noexcept {
        auto const  held = lock_.hold();
        range const r{q, n};
        for (std::size_t i = r.first; i < r.last; ++i) {
            if (at(r.block, i).mapped) { continue; }
            at(r.block, i) = {now_at_.size(), true};
            now_at_.push_back(r.block * apart + i * page);
        }
        return true;
    }
    std::size_t drop(void* q, std::size_t n) noexcept {
        auto const  held = lock_.hold();
        std::size_t gone = 0;
        range const r{q, n};
        for (std::size_t i = r.first; i < r.last; ++i) {
            gone += std::exchange(at(r.block, i), {}).mapped ? page : 0;
        }
        return gone;
    }
    std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept {
        auto const  held = lock_.hold();
        range const source{from, n}, taker{to, m};
        std::size_t moved = 0, i = source.first;
        for (std::size_t j = taker.first; j < taker.last; ++j) {
            if (at(taker.block, j).mapped) { continue; }
            while (i < source.last && !at(source.block, i).mapped) { ++i; }
            if (i == source.last) { break; }
            at(source.block, i).mapped = false;
            std::size_t const piece    = at(source.block, i).piece;
            at(taker.block, j)         = {piece, true};
            now_at_[piece]             = taker.block * apart + j * page;
            moved += page;
        }
        return moved;
    }
    [[nodiscard]] void* moved_to(void const* q) const noexcept {
        auto const held = lock_.hold();
        auto const here = reinterpret_cast<std::uintptr_t>(q) / page * page;
        auto const p    = const_at(here / apart, here % apart / page);
        auto const now  = now_at_[p.piece];
        return now == here ? nullptr : reinterpret_cast<void*>(now);
    }

    friend bool operator==(address_virtual const& a, address_virtual const& b) noexcept {
        return &a == &b;
    }

private:
    static constexpr std::size_t    page  = vram::virtual_options{}.handle_size;
    static constexpr std::uintptr_t apart = 1_TiB;

    /// A range of pages of a block. The caller ensures that it begins and ends at pages if
    /// necessary.
    struct range {
        std::uintptr_t block;
        std::size_t    first, last;
        range(void const* q, std::size_t n)
            : block{reinterpret_cast<std::uintptr_t>(q) / apart},
              first{reinterpret_cast<std::uintptr_t>(q) % apart / page},
              last{(reinterpret_cast<std::uintptr_t>(q) % apart + n + page - 1) / page} {}
    };
    /// A page: the piece of physical memory that it has, or had last (0: none).
    struct slot {
        std::size_t piece  = 0;
        bool        mapped = false;
    };
    slot& at(std::uintptr_t block, std::size_t i) noexcept {
        std::vector<slot>& all = pages_[block];
        if (all.size() <= i) { all.resize(2 * i + 1); }
        return all[i];
    }
    [[nodiscard]] slot const_at(std::uintptr_t block, std::size_t i) const {
        auto const found = pages_.find(block);
        return found != pages_.end() && i < found->second.size() ? found->second[i] : slot{};
    }

    static inline std::atomic<std::uintptr_t>   next_{apart};
    std::map<std::uintptr_t, std::vector<slot>> pages_;
    /// Page of each piece of physical memory.
    std::vector<std::uintptr_t> now_at_{0};
    vram::detail::lock          lock_;
};

static_assert(vram::remappable_resource<address_virtual<>>);
static_assert(vram::fallible_resource<address_virtual<>>);

} // namespace bench
