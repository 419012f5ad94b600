// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `archetype` is an upstream for tests of layers: move-only, with a state, and with every power.

#include "quiet.hpp" // quiet_map

#include <vram/base/core/lock.hpp>       // lock
#include <vram/base/memory_usage.hpp>    // memory_usage
#include <vram/base/out_of_memory.hpp>   // out_of_memory
#include <vram/concepts/powers.hpp>      // the concepts that the proofs below check
#include <vram/source/host_platform.hpp> // host_platform
#include <vram/source/host_resource.hpp> // its device_resource

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // move

namespace doubles {

/// Memory of the platform's device resource, with every power that a resource can have. `capacity`
/// limits the live bytes. Thread-safe.
template <class Platform = vram::host_platform>
class archetype {
public:
    using platform   = Platform;
    using stream     = typename platform::stream;
    using source     = typename platform::device_resource;
    using properties = typename source::properties;

    archetype() = default;
    explicit archetype(std::size_t capacity) : capacity_{capacity} {}
    archetype(archetype&&) = default;
    archetype& operator=(archetype&& other) noexcept {
        if (this == &other) { return *this; }
        take_all_back();
        source_   = std::move(other.source_);
        blocks_   = std::move(other.blocks_);
        usage_    = other.usage_;
        capacity_ = other.capacity_;
        return *this;
    }
    /// Frees the live blocks. The ledger decides if they are leaks.
    ~archetype() { take_all_back(); }

    [[nodiscard]] void* allocate(stream, std::size_t n, std::size_t a = vram::default_alignment) {
        return allocate_sync(n, a);
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        if (n == 0) { return nullptr; }
        if (!fits(n)) {
            throw vram::out_of_memory{
                {.asked = n, .rounded = n, .alignment = a, .live = usage().live}};
        }
        return noted(source_.allocate_sync(n, a), n, a);
    }

    [[nodiscard]] void* try_allocate(stream, std::size_t n,
                                     std::size_t a = vram::default_alignment) noexcept {
        return try_allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        try {
            return n == 0 || !fits(n) ? nullptr : noted(source_.allocate_sync(n, a), n, a);
        } catch (...) { return nullptr; }
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t a = vram::default_alignment) noexcept {
        if (p == nullptr) { return; }
        platform::synchronize(s); // the resource is not stream-ordered
        deallocate_sync(p, n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        if (p == nullptr) { return; }
        {
            auto const held = lock_.hold();
            blocks_.erase(reinterpret_cast<std::uintptr_t>(p));
            usage_.live -= n;
            usage_.requested -= n;
            usage_.reserved -= n;
        }
        source_.deallocate_sync(p, n, a);
    }

    [[nodiscard]] bool owns(void const* p) const {
        auto const held    = lock_.hold();
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        auto       at      = blocks_.upper_bound(address);
        return at != blocks_.begin() && (--at, address - at->first < at->second.bytes);
    }
    [[nodiscard]] vram::memory_usage usage() const {
        auto const held = lock_.hold();
        return usage_;
    }
    std::size_t trim(std::size_t = 0) noexcept {
        auto const held = lock_.hold();
        ++trims_;
        return 0;
    }
    void retire(stream) noexcept {
        auto const held = lock_.hold();
        ++retired_;
    }
    void forget_captures() noexcept {
        auto const held = lock_.hold();
        ++forgotten_;
    }

    [[nodiscard]] std::size_t trims() const noexcept { return trims_; }
    [[nodiscard]] std::size_t retired() const noexcept { return retired_; }
    [[nodiscard]] std::size_t forgotten() const noexcept { return forgotten_; }

    friend bool operator==(archetype const& a, archetype const& b) noexcept { return &a == &b; }

private:
    struct block {
        std::size_t bytes;
        std::size_t alignment;
    };

    void take_all_back() noexcept {
        for (auto const& [address, b] : blocks_) {
            source_.deallocate_sync(reinterpret_cast<void*>(address), b.bytes, b.alignment);
        }
        blocks_.clear();
    }
    [[nodiscard]] bool fits(std::size_t n) const {
        auto const held = lock_.hold();
        return n <= capacity_ - usage_.live;
    }
    void* noted(void* p, std::size_t n, std::size_t a) {
        auto const held                              = lock_.hold();
        blocks_[reinterpret_cast<std::uintptr_t>(p)] = {n, a};
        ++usage_.allocations;
        usage_.live += n;
        usage_.requested += n;
        usage_.reserved += n;
        usage_.peak_live     = usage_.live > usage_.peak_live ? usage_.live : usage_.peak_live;
        usage_.peak_reserved = usage_.peak_live;
        return p;
    }

    source                           source_{};
    vram::detail::lock               lock_;
    quiet_map<std::uintptr_t, block> blocks_;
    vram::memory_usage               usage_{};
    std::size_t                      capacity_  = vram::unsatisfiable;
    std::size_t                      trims_     = 0;
    std::size_t                      retired_   = 0;
    std::size_t                      forgotten_ = 0;
};

static_assert(vram::resource<archetype<>> && vram::fallible_resource<archetype<>>);
static_assert(vram::owning_resource<archetype<>> && vram::measured_resource<archetype<>>);
static_assert(vram::trimmable_resource<archetype<>> && vram::retiring_resource<archetype<>>);
static_assert(vram::forgetting_resource<archetype<>>);

} // namespace doubles
