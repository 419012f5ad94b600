// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pages` simulates CUDA's virtual memory functions, such as cuMemCreate and cuMemMap.

#include <vram/base/align.hpp>    // valid_alignment
#include <vram/base/contract.hpp> // expects
#include <vram/sim/machine/sim_call.hpp>

#include <algorithm> // max
#include <cstddef>
#include <cstdint>
#include <memory> // make_unique
#include <utility>

namespace vram {
namespace detail {

/// Simulates cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess and their inverses, with
/// the rules of the driver. Sizes are multiples of the page size, and a mapping covers a whole
/// piece of physical memory. Contents belong to the physical memory, not to addresses.
///
/// Failure   Members throw `sim_error{invalid_value}` if a rule is broken, or `std::bad_alloc`.
/// Threads   The calling thread holds the machine's lock.
class sim_pages {
public:
    explicit sim_pages(sim_call& call) : call_{call}, m_{call.machine} {
        expects(valid_alignment(m_.options.page) && m_.options.page >= sim_frames::page,
                "sim_options: a page must be a power of two, of 4 KiB or more");
    }

    /// Reserves a range of addresses without memory, and returns its start. The alignment is at
    /// least a page.
    [[nodiscard]] void* reserve(int device, std::size_t bytes, std::size_t alignment) {
        call_.admit();
        demand(whole(bytes) && bytes != 0 && valid_alignment(alignment));
        sim_options const& o = m_.options;
        auto made = std::make_unique<sim_reservation>(bytes, std::max(alignment, o.page), device,
                                                      o.backed, o.dereferenceable);
        made->reserved = call_.host_step("reserve");
        return reinterpret_cast<void*>(
            m_.memory.reservations.emplace(made->begin, std::move(made)).first->first);
    }

    /// Frees a reserved range. It must be exactly one that `reserve` returned, without mappings.
    void release(void* p, std::size_t bytes) {
        call_.admit();
        auto const found = m_.memory.reservations.find(address(p));
        demand(found != m_.memory.reservations.end() && found->second->bytes == bytes &&
               found->second->space.blocks().empty());
        m_.memory.reservations.erase(found);
    }

    /// Allocates `bytes` bytes of physical memory of `device` and returns their handle, or 0 if the
    /// request is refused.
    [[nodiscard]] std::uint64_t create(int device, std::size_t bytes) {
        sim_device_state& d = m_.at(device);
        if (d.lost) { call_.admit(); }
        demand(whole(bytes) && bytes != 0);
        sim_figures& f = m_.schedule.figures(device);
        if (call_.refusal != sim_status::ok || bytes > d.free()) {
            ++f.refused;
            return 0;
        }
        sim_event_of const  step   = call_.host_step("create");
        std::uint64_t const handle = step.number;
        sim_physical        memory{.bytes = bytes, .device = device, .created = step};
        m_.checker.made(memory);
        auto const made = m_.memory.physical.emplace(handle, std::move(memory)).first;
        try {
            if (m_.options.backed) { made->second.place = m_.memory.frames.take(bytes); }
        } catch (...) {
            m_.memory.physical.erase(made);
            throw;
        }
        d.used += bytes;
        ++f.allocations;
        f.used      = d.used;
        f.peak_used = std::max(f.peak_used, f.used);
        return handle;
    }

    /// Destroys a handle. The physical memory is freed once it also has no mapping.
    void destroy(std::uint64_t handle) {
        call_.admit();
        sim_physical& memory = physical(handle);
        memory.handle        = false;
        drop_unused(handle, memory);
    }

    /// Maps the physical memory with that handle to the reserved address `p`. No device may access
    /// it there before `set_access`.
    void map(void* p, std::uint64_t handle, std::size_t bytes) {
        call_.admit();
        sim_physical&    memory = physical(handle);
        sim_reservation& r      = reservation(p, bytes);
        demand(memory.bytes == bytes && free(r, address(p), bytes));
        sim_block* const block = r.space.insert_at(address(p), bytes);
        block->kind            = sim_kind::device;
        block->device          = memory.device;
        block->granted         = false;
        block->physical        = handle;
        try {
            m_.checker.allocated(*block, call_.host_step("map"));
            if (r.space.backed()) {
                m_.memory.frames.show(r.space.view(address(p)), memory.place, bytes);
            }
        } catch (...) {
            r.space.erase(*block);
            throw;
        }
        ++memory.mappings;
    }

    /// Permits devices to access all mappings in the range. Throws `sim_error{invalid_value}`
    /// unless the range consists of whole mappings.
    void set_access(void* p, std::size_t bytes) {
        call_.admit();
        sim_reservation& r = mapped(p, bytes);
        for_each(r, p, bytes, [&](sim_block& block) {
            call_.pay(m_.options.costs.set_access, block.bytes);
            if (block.granted) { return; }
            m_.checker.allocated(block, call_.host_step("set access"));
            block.granted = true;
        });
    }

    /// Removes all mappings in the range without a wait. The checker reports queued work that uses
    /// them.
    void unmap(void* p, std::size_t bytes) {
        call_.admit();
        sim_reservation&   r    = mapped(p, bytes);
        sim_event_of const step = call_.host_step("unmap");
        for_each(r, p, bytes, [&](sim_block& block) {
            m_.checker.released(block, step, call_.host->vclock, in_resource_call());
        });
        if (r.space.backed()) { sim_frames::hide(r.space.view(address(p)), bytes); }
        for_each(r, p, bytes, [&](sim_block& block) {
            std::uint64_t const handle = block.physical;
            call_.pay(m_.options.costs.unmap, block.bytes);
            r.space.erase(block);
            sim_physical& memory = m_.memory.physical.at(handle);
            --memory.mappings;
            drop_unused(handle, memory);
        });
    }

private:
    static std::uintptr_t address(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    [[nodiscard]] bool whole(std::size_t bytes) const noexcept {
        return bytes % m_.options.page == 0;
    }
    void demand(bool held) const {
        if (!held) { throw sim_error{sim_status::invalid_value, call_.where}; }
    }

    sim_physical& physical(std::uint64_t handle) {
        auto const found = m_.memory.physical.find(handle);
        demand(found != m_.memory.physical.end() && found->second.handle);
        return found->second;
    }
    /// Returns the reservation that contains the range. Throws `sim_error{invalid_value}` if there
    /// is none, or for parts of pages.
    sim_reservation& reservation(void* p, std::size_t bytes) {
        sim_reservation* const r = m_.memory.reservation_of(address(p));
        demand(r != nullptr && whole(bytes) && bytes != 0 && whole(address(p) - r->begin) &&
               bytes <= r->end() - address(p));
        return *r;
    }
    static bool free(sim_reservation& r, std::uintptr_t at, std::size_t bytes) {
        sim_block const* const before = r.space.before(at + bytes - 1);
        return before == nullptr || before->end() <= at;
    }
    /// Returns the reservation (of addresses) that contains the range. Throws
    /// `sim_error{invalid_value}` unless the range consists of whole mappings.
    sim_reservation& mapped(void* p, std::size_t bytes) {
        sim_reservation& r  = reservation(p, bytes);
        std::uintptr_t   at = address(p);
        while (at < address(p) + bytes) {
            sim_block const* const block = r.mapping(at);
            demand(block != nullptr && (at != address(p) || block->begin == at));
            at = block->end();
        }
        demand(at == address(p) + bytes);
        return r;
    }
    template <class Visit>
    static void for_each(sim_reservation& r, void* p, std::size_t bytes, Visit visit) {
        for (std::uintptr_t at = address(p); at < address(p) + bytes;) {
            sim_block& block = *r.mapping(at);
            at               = block.end();
            visit(block); // may erase `block`, which must not be used after this
        }
    }

    void drop_unused(std::uint64_t handle, sim_physical const& memory) {
        if (memory.handle || memory.mappings != 0) { return; }
        m_.at(memory.device).used -= memory.bytes;
        ++m_.schedule.figures(memory.device).frees;
        if (m_.options.backed) { m_.memory.frames.give(memory.place, memory.bytes); }
        m_.memory.physical.erase(handle);
    }

    sim_call&    call_;
    sim_machine& m_;
};

} // namespace detail
} // namespace vram
