// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `region_resource` allocates from a fixed memory range that the caller owns.

#include <vram/base/align.hpp> // align, default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/error.hpp>           // error_kind
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // synchronous_only
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/powers.hpp> // the concepts that the proofs below check
#include <vram/source/host_platform.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Allocates blocks one behind the other from a range of addresses of the caller, which the
/// resource never accesses. A free of the newest block makes its bytes available at once; other
/// freed bytes may stay unavailable until no block is live.
///
///     std::byte buffer[64_KiB];
///     region_resource mr{buffer, sizeof buffer};
///
/// Failure   Throws `out_of_memory`.
/// Threads   One thread at a time; for several, compose `locked` over it.
/// Streams   Not stream-ordered; compose `stream_ordered` over it.
/// Cost      A few additions. No allocation.
template <class Platform = host_platform, class Properties = property_set<host_accessible>>
class region_resource : public detail::synchronous_only<region_resource<Platform, Properties>> {
public:
    using platform   = Platform;
    using properties = Properties;

    /// Creates a resource for the `bytes` bytes at `base`, a range that must outlive it. `base` may
    /// be null only if `bytes` is zero.
    region_resource(void* base, std::size_t bytes)
        : base_{reinterpret_cast<std::uintptr_t>(base)}, top_{base_}, end_{base_ + bytes} {
        expects(end_ >= base_, "region_resource: the range must end before the address space does");
        expects(base_ != 0 || bytes == 0, "region_resource: a range at null must be empty");
    }
    region_resource(region_resource&& other) noexcept {
        *this = static_cast<region_resource&&>(other);
    }
    region_resource& operator=(region_resource&& other) noexcept {
        if (this == &other) { return *this; }
        // `other` is empty afterwards: two resources must not allocate from one range.
        base_    = std::exchange(other.base_, 0);
        top_     = std::exchange(other.top_, 0);
        end_     = std::exchange(other.end_, 0);
        blocks_  = std::exchange(other.blocks_, 0);
        figures_ = std::exchange(other.figures_, {});
        return *this;
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        void* const p = try_allocate_sync(bytes, alignment);
        if (p == nullptr && bytes != 0) {
            throw out_of_memory{{.asked        = bytes,
                                 .rounded      = bytes,
                                 .alignment    = alignment,
                                 .live         = figures_.live,
                                 .reserved     = end_ - base_,
                                 .largest_free = end_ - top_}};
        }
        return p;
    }

    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        expects(valid_alignment(alignment),
                "region_resource: the alignment must be a power of two");
        std::uintptr_t const start = align(top_, alignment);
        if (bytes == 0 || start > end_ || bytes > end_ - start) { return nullptr; }
        top_ = start + bytes;
        ++blocks_;
        ++figures_.allocations;
        figures_.live += bytes;
        figures_.peak_live = detail::larger_of(figures_.peak_live, figures_.live);
        return reinterpret_cast<void*>(start);
    }

    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr) { return; }
        auto const           start = reinterpret_cast<std::uintptr_t>(p);
        detail::refused_free e{"region_resource", p, bytes, alignment, at};
        if (!owns(p)) { return e.template report<platform>(); }
        if (start >= top_) { return e.found_free().template report<platform>(); }
        // If this is the only live block, its size is known: it is `figures_.live`. The sizes of
        // single blocks are not stored.
        bool const last = blocks_ == 1;
        if (bytes == 0 || bytes > top_ - start || bytes > figures_.live ||
            (last && bytes != figures_.live)) {
            e.what.kind        = error_kind::wrong_size;
            e.what.block_bytes = last ? figures_.live : 0;
            return e.template report<platform>();
        }
        figures_.live -= bytes;
        if (start + bytes == top_) { top_ = start; }
        if (--blocks_ == 0) { top_ = base_; }
    }

    /// Returns true if `p` lies in the range, allocated or not.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return base_ <= address && address < end_;
    }
    [[nodiscard]] memory_usage usage() const noexcept {
        memory_usage now  = figures_;
        now.requested     = now.live;
        now.reserved      = end_ - base_;
        now.peak_reserved = now.reserved;
        now.largest_free  = end_ - top_;
        return now;
    }

    /// A resource is equal only to itself.
    friend bool operator==(region_resource const& a, region_resource const& b) noexcept {
        return &a == &b;
    }

private:
    std::uintptr_t base_ = 0;
    /// No live block has this address or a higher one. The next block starts here or higher.
    std::uintptr_t top_    = 0;
    std::uintptr_t end_    = 0;
    std::size_t    blocks_ = 0; ///< number of live blocks
    memory_usage   figures_{};
};

static_assert(synchronous_resource<region_resource<>> && fallible_resource<region_resource<>>);
static_assert(owning_resource<region_resource<>> && measured_resource<region_resource<>>);
static_assert(!resource<region_resource<>>);

} // namespace vram
