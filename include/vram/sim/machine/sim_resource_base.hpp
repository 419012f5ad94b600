// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_resource_base` is the base of the simulated resources that are not stream-ordered.

#include <vram/base/align.hpp>    // default_alignment, valid_alignment
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/process_exit.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // synchronous_only
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/powers.hpp> // the concepts that the proofs check, property_set
#include <vram/sim/machine/sim_capture_guard.hpp>
#include <vram/sim/machine/sim_heap.hpp>
#include <vram/sim/sim_device.hpp>
#include <vram/sim/sim_error.hpp> // report_sim_error

#include <cstddef>
#include <source_location> // source_location

namespace vram {

// Defined in sim/sim_platform.hpp.
struct sim_platform;

namespace detail {

/// Allocates simulated memory of one kind without stream order. A free waits for all work of the
/// device.
///
/// Failure   `allocate_sync` throws `out_of_memory`, `sim_error` or `sim_race`.
template <sim_kind Kind, sim_call_kind Call, class Properties>
class sim_resource_base
    : public detail::synchronous_only<sim_resource_base<Kind, Call, Properties>> {
public:
    using platform   = sim_platform;
    using at         = std::source_location; ///< type of the source location in reports
    using properties = Properties;

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      at w = at::current()) {
        if (bytes == 0) { return nullptr; }
        expects(valid_alignment(alignment), "sim: the alignment must be a power of two");
        sim_machine&            m = device_.machine();
        sim_capture_guard const relaxed{m};
        sim_call                call{m, Call, device_.index(), w, bytes};
        // Throws the report of an earlier mistake, if any, before a block is allocated.
        call.throw_report();
        void* const p = sim_heap{call}.allocate(Kind, device_.index(), bytes, alignment);
        if (p == nullptr) {
            call.throw_report();
            shortage numbers{.asked     = bytes,
                             .rounded   = align(bytes, m.options.granularity),
                             .alignment = alignment};
            if constexpr (Kind == sim_kind::device) {
                sim_device_state const& d = m.at(device_.index());
                numbers.live = numbers.reserved = d.used;
                numbers.device_free             = d.free();
                numbers.device_total            = d.capacity;
            } else { // pinned or managed memory, limited by `pinned_capacity`
                numbers.live  = Kind == sim_kind::managed ? m.managed_used : m.pinned_used;
                numbers.limit = m.options.pinned_capacity;
            }
            throw out_of_memory{numbers};
        }
        return p;
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          at          w         = at::current()) noexcept {
        if (bytes == 0) { return nullptr; }
        try {
            return allocate_sync(bytes, alignment, w);
        } catch (...) { // out of memory, or another error of the device
            return nullptr;
        }
    }

    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         at w = at::current()) noexcept {
        if (p == nullptr || process_exit::began()) { return; }
        try {
            if (free(p, bytes, w)) { return; }
            report_error(refused_free{"sim resource", p, bytes, alignment, w}.what);
        } catch (...) { report_sim_error(p, bytes, w); }
        note_refused(p);
    }

    /// Returns true if `p` is in a live block of this kind of memory on this device, allocated by
    /// this or an equal resource.
    [[nodiscard]] bool owns(void const* p) const {
        sim_machine&           m = device_.machine();
        std::unique_lock const held{m.mutex};
        auto const             from  = reinterpret_cast<std::uintptr_t>(p);
        sim_space&             space = m.memory.space(Kind, device_.index());
        sim_block const* const block = space.holds(from) ? space.before(from) : nullptr;
        return block != nullptr && !block->freed && block->kind == Kind && from < block->end();
    }

    [[nodiscard]] sim_device device() const noexcept { return device_; }

    /// Resources are equal if they have the same device; each can free blocks of the other.
    friend bool operator==(sim_resource_base const&, sim_resource_base const&) = default;

protected:
    explicit sim_resource_base(sim_device device) : device_{device} { process_exit::watch(); }

private:
    /// Frees a block. Returns false, and frees nothing, if `p` is not a live block of this memory.
    [[nodiscard]] bool free(void* p, std::size_t bytes, at w) {
        sim_call call{device_.machine(), sim_call_kind::free, device_.index(), w, bytes};
        call.admit();
        return sim_heap{call}.free(Kind, device_.index(), p, bytes);
    }

    sim_device device_;
};

} // namespace detail
} // namespace vram
