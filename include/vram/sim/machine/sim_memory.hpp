// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_memory` holds all simulated memory: address ranges, blocks and contents.

#include <vram/base/align.hpp>
#include <vram/sim/machine/sim_frames.hpp>
#include <vram/sim/machine/sim_physical.hpp>
#include <vram/sim/machine/sim_reservation.hpp>
#include <vram/sim/machine/sim_space.hpp> // sim_space, sim_block
#include <vram/sim/sim_options.hpp>
#include <vram/sim/sim_range.hpp>

#include <algorithm> // clamp, min
#include <cstddef>
#include <cstdint>
#include <iterator> // prev
#include <map>      // map
#include <memory>   // unique_ptr
#include <new>      // bad_alloc
#include <vector>   // vector

namespace vram {
namespace detail {

/// All memory of a node (simulated machine): address ranges for devices, pinned and managed memory,
/// registered host memory, and reserved virtual addresses with physical memory.
///
/// Threads   The caller holds the machine's lock.
/// Cost      A lookup is O(log blocks).
class sim_memory {
public:
    explicit sim_memory(sim_options const& options) {
        for (int i = 0; i < options.devices; ++i) {
            bool const        plain  = options.backed && options.dereferenceable;
            std::size_t const each   = options.backed && !plain ? 2 : 1;
            std::size_t const ranges = static_cast<std::size_t>(options.devices) * each;
            spaces_.push_back(reserve(options.capacity, plain, zones, all_addresses / ranges));
            if (options.backed && !plain) { spaces_.back()->back(); }
        }
        devices_ = options.devices;
        for (int i = 0; i < 2; ++i) {
            spaces_.push_back(reserve(options.pinned_capacity, true, 1, most));
        }
        registered_ = std::make_unique<sim_space>(page, false);
    }

    [[nodiscard]] sim_space& space(sim_kind kind, int device) {
        if (kind == sim_kind::registered) { return *registered_; }
        int const index = kind == sim_kind::pinned    ? devices_
                          : kind == sim_kind::managed ? devices_ + 1
                                                      : device;
        return *spaces_[static_cast<std::size_t>(index)];
    }

    /// Returns the address range that contains `p`, or null if `p` is pageable host memory.
    [[nodiscard]] sim_space* space_of(std::uintptr_t p) {
        for (auto& space : spaces_) {
            if (space->holds(p)) { return space.get(); }
        }
        if (sim_reservation* const r = reservation_of(p)) { return &r->space; }
        sim_block const* const block = registered_->before(p);
        return block != nullptr && !block->freed && p < block->end() ? registered_.get() : nullptr;
    }

    /// Removes the first bytes of `rest`, up to the next begin or end of a registered range, and
    /// returns them. The host may access a registered range and the memory beside it as one range.
    [[nodiscard]] sim_range take_alike(sim_range& rest) {
        std::uintptr_t   end   = rest.end();
        sim_block const* block = registered_->before(end - 1);
        for (; block != nullptr && block->begin > rest.begin();
             block = registered_->before(end - 1)) {
            end = block->begin;
        }
        if (block != nullptr && block->end() > rest.begin()) { end = std::min(end, block->end()); }
        sim_range const first{rest.data, end - rest.begin()};
        rest = {reinterpret_cast<void const*>(end), rest.bytes - first.bytes};
        return first;
    }

    /// Returns the kind of the memory at `p`. Sets `device` to its device, or to 0 for pinned and
    /// managed memory; leaves it unchanged for other host memory.
    [[nodiscard]] sim_kind kind_of(std::uintptr_t p, int& device) const {
        for (std::size_t i = 0; i < spaces_.size(); ++i) {
            if (!spaces_[i]->holds(p)) { continue; }
            int const index = static_cast<int>(i);
            device          = index < devices_ ? index : 0;
            if (index < devices_) { return sim_kind::device; }
            return index == devices_ ? sim_kind::pinned : sim_kind::managed;
        }
        if (sim_reservation const* const r = reservation_of(p)) {
            sim_block const* const mapped = const_cast<sim_reservation*>(r)->mapping(p);
            device                        = mapped != nullptr ? mapped->device : r->device;
            return sim_kind::device;
        }
        sim_block const* const block = registered_->before(p);
        bool const             known = block != nullptr && !block->freed && p < block->end();
        return known ? sim_kind::registered : sim_kind::pageable;
    }

    /// Returns true if `p` is in an address range of the simulated node.
    [[nodiscard]] bool simulates(std::uintptr_t p) const noexcept {
        for (auto const& space : spaces_) {
            if (space->holds(p)) { return true; }
        }
        return reservation_of(p) != nullptr;
    }

    /// Returns the address at which the host finds the contents of the memory at `p`, or 0 if there
    /// are none.
    [[nodiscard]] std::uintptr_t view(std::uintptr_t p) const noexcept {
        for (auto const& space : spaces_) {
            if (space->holds(p)) { return space->backed() ? space->view(p) : 0; }
        }
        if (sim_reservation const* const r = reservation_of(p)) {
            return r->space.backed() ? r->space.view(p) : 0;
        }
        return p;
    }

    /// Returns the reserved range that contains `p`, or null if there is none.
    [[nodiscard]] sim_reservation* reservation_of(std::uintptr_t p) {
        auto const after = reservations.upper_bound(p);
        if (after == reservations.begin()) { return nullptr; }
        sim_reservation* const r = std::prev(after)->second.get();
        return p < r->end() ? r : nullptr;
    }
    [[nodiscard]] sim_reservation const* reservation_of(std::uintptr_t p) const {
        return const_cast<sim_memory*>(this)->reservation_of(p);
    }

    /// The reserved address ranges, by their start.
    std::map<std::uintptr_t, std::unique_ptr<sim_reservation>> reservations;
    /// The physical memory that was created, by its handle.
    std::map<std::uint64_t, sim_physical> physical;
    /// The contents of the physical memory.
    sim_frames frames;

    template <class Visit>
    void for_each(Visit visit) {
        for (auto& space : spaces_) {
            for (sim_block& block : space->blocks()) { visit(block); }
        }
        for (sim_block& block : registered_->blocks()) { visit(block); }
    }

private:
    static constexpr std::size_t page = 4096;

    static constexpr std::size_t most = std::size_t{1} << 44;
    /// Largest sum of the address ranges of all devices of a node (simulated machine), in bytes.
    static constexpr std::size_t all_addresses = 2 * most;
    /// Number of zones (parts of a device's addresses for blocks of similar sizes). Without a
    /// sanitizer, there is one zone for each power of two above 256 bytes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // A sanitizer needs shadow memory for each reserved address. Blocks of all sizes share one
    // zone, so that fewer addresses suffice.
    static constexpr std::size_t zones = 1;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    static constexpr std::size_t zones = 1;
#else
    static constexpr std::size_t zones = 32;
#endif
#else
    static constexpr std::size_t zones = 32;
#endif

    /// Reserves an address range of at most `limit` bytes for `capacity` bytes of memory. If
    /// possible, the range is several times as large as `capacity`, so that freed addresses are not
    /// reused soon. `plain`: true if the program can access the range. `parts`: largest number of
    /// zones (parts of the range for blocks of similar sizes).
    static std::unique_ptr<sim_space> reserve(std::size_t capacity, bool plain, std::size_t parts,
                                              std::size_t limit) {
        std::size_t const least = align(std::clamp(capacity, page, limit), page);
        // Sanitizers leave few addresses.
        std::size_t const times = zones == 1 && least > (std::size_t{64} << 30) ? 2 : 4;
        std::size_t const wish  = least > limit / (times * parts) ? limit : times * parts * least;
        for (std::size_t room = wish;; room = align(room / 2, page)) {
            try {
                bool const ample = room / parts >= 2 * least;
                return std::make_unique<sim_space>(room, plain, ample ? parts : 1);
            } catch (std::bad_alloc const&) {
                if (room <= least) { throw; }
            }
        }
    }

    std::vector<std::unique_ptr<sim_space>> spaces_;
    std::unique_ptr<sim_space>              registered_;
    int                                     devices_ = 0;
};

} // namespace detail
} // namespace vram
