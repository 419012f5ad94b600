// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interrupted_platform` runs a function of the test while the host waits for an event.

#include <vram/sim/sim.hpp> // sim_platform, sim_resource, sim_virtual_memory

#include <cstddef>    // size_t
#include <functional> // function
#include <utility>    // exchange

namespace doubles {

/// Simulates another thread at the worst time: `meanwhile` is called once, before the calling
/// thread's next wait for an event, or during its next call of `interrupted_memory` or of an
/// `interrupted` resource. It may set itself again.
struct interrupted_platform : vram::sim_platform {
    using sim_platform::synchronize;
    static void synchronize(event const& e, at where = at::current()) {
        interrupt();
        sim_platform::synchronize(e, where);
    }
    static void interrupt() {
        vram::detail::sim_program_call const other; // the calls of another thread
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
    }

    static inline thread_local std::function<void()> meanwhile;
};

/// Device memory of that platform. `meanwhile` runs before memory is allocated or freed.
struct interrupted_memory {
    using platform   = interrupted_platform;
    using properties = vram::sim_resource::properties;

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        platform::interrupt();
        return memory.allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        platform::interrupt();
        return memory.try_allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        platform::interrupt();
        memory.deallocate_sync(p, n, a);
    }
    friend bool operator==(interrupted_memory const&, interrupted_memory const&) = default;

    vram::sim_resource memory{};
};

/// Virtual memory of that platform.
struct interrupted_pages : vram::detail::sim_virtual_memory {
    using platform = interrupted_platform;
    using sim_virtual_memory::sim_virtual_memory;
};

} // namespace doubles
