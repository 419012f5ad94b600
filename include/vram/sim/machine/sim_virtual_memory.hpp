// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_virtual_memory` is the virtual memory interface of a simulated device.

#include <vram/base/error.hpp> // report_error
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/virtual_memory.hpp> // the concept that the proof below checks
#include <vram/sim/machine/sim_pages.hpp>
#include <vram/sim/sim_platform.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location> // source_location

namespace vram {
namespace detail {

/// Reserved addresses and physical memory, allocated separately. Contents belong to the physical
/// memory, at any address to which it is mapped.
///
///     sim_virtual_memory memory;
///     void* const        at = memory.reserve(1_GiB, 2_MiB);
///
/// Failure   `create` throws `out_of_memory` or `sim_race`, other functions `sim_error`. `release`
///           and `destroy` report errors to the error sink.
/// Threads   Any thread may use it.
/// Streams   `unmap` waits for nothing. The checker reports work that still uses the mapping.
/// Cost      O(log mappings), and one system call each.
class sim_virtual_memory {
public:
    using platform = sim_platform;
    using at       = std::source_location; ///< type of the source location in reports
    using handle   = std::uint64_t;

    explicit sim_virtual_memory(sim_device device = sim_device::current()) : device_{device} {
        process_exit::watch();
    }

    [[nodiscard]] std::size_t granularity() const noexcept {
        return device_.machine().options.page;
    }
    [[nodiscard]] memory_info memory() const { return device_.memory(); }

    [[nodiscard]] void* reserve(std::size_t bytes, std::size_t alignment,
                                at w = at::current()) const {
        sim_call call{device_.machine(), sim_call_kind::reserve, device_.index(), w, bytes};
        return sim_pages{call}.reserve(device_.index(), bytes, alignment);
    }
    void release(void* p, std::size_t bytes, at w = at::current()) const noexcept {
        free(p, bytes, w, [&](sim_call& call) {
            sim_pages{call}.release(p, bytes);
            call.pay(call.machine.options.costs.release, bytes);
        });
    }

    [[nodiscard]] handle create(std::size_t bytes, at w = at::current()) const {
        sim_call call{device_.machine(), sim_call_kind::create, device_.index(), w, bytes};
        // Throws the report of an earlier mistake, if any, before memory is created.
        call.throw_report();
        handle const made = sim_pages{call}.create(device_.index(), bytes);
        if (made == 0) {
            sim_device_state const& d = call.machine.at(device_.index());
            throw out_of_memory{{.asked        = bytes,
                                 .rounded      = bytes,
                                 .device_free  = d.free(),
                                 .device_total = d.capacity}};
        }
        return made;
    }
    void destroy(handle h, std::size_t bytes, at w = at::current()) const noexcept {
        free(nullptr, bytes, w, [&](sim_call& call) {
            sim_pages{call}.destroy(h);
            call.pay(call.machine.options.costs.destroy, bytes);
        });
    }

    void map(void* p, handle h, std::size_t bytes, at w = at::current()) const {
        sim_call call{device_.machine(), sim_call_kind::map, device_.index(), w, bytes};
        sim_pages{call}.map(p, h, bytes);
    }
    void set_access(void* p, std::size_t bytes, at w = at::current()) const {
        sim_call call{device_.machine(), sim_call_kind::set_access, device_.index(), w, bytes};
        sim_pages{call}.set_access(p, bytes);
    }
    void unmap(void* p, std::size_t bytes, at w = at::current()) const {
        if (process_exit::began()) { return; }
        sim_call call{device_.machine(), sim_call_kind::unmap, device_.index(), w, bytes};
        sim_pages{call}.unmap(p, bytes);
    }

    [[nodiscard]] sim_device device() const noexcept { return device_; }

    friend bool operator==(sim_virtual_memory const&, sim_virtual_memory const&) = default;

private:
    template <class Give>
    void free(void* p, std::size_t bytes, at w, Give give) const noexcept {
        if (process_exit::began()) { return; }
        try {
            sim_call call{device_.machine(), sim_call_kind::free, device_.index(), w, bytes};
            give(call);
        } catch (...) { report_sim_error(p, bytes, w); }
    }

    sim_device device_;
};

static_assert(virtual_memory<sim_virtual_memory>);

} // namespace detail
} // namespace vram
