// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_memory_kind` returns the kind of memory at an address.

#include <vram/concepts/memory_kind.hpp>
#include <vram/sim/sim_node.hpp>

#include <cstdint>
#include <mutex> // unique_lock

namespace vram {
namespace detail {

/// Returns the kind of the memory at `p`. Returns `pageable` if `p` is in no memory or reserved
/// address range of the current `sim_node` (simulated machine).
///
/// Cost      O(log blocks).
[[nodiscard]] inline memory_kind sim_memory_kind(void const* p) {
    sim_machine&           m = sim_node::current().machine();
    std::unique_lock const held{m.mutex};
    int                    device = 0;
    switch (m.memory.kind_of(reinterpret_cast<std::uintptr_t>(p), device)) {
    case sim_kind::device:
    case sim_kind::device_async: return memory_kind::device;
    case sim_kind::managed: return memory_kind::managed;
    case sim_kind::pinned:
    case sim_kind::registered: return memory_kind::pinned;
    case sim_kind::pageable: break;
    }
    return memory_kind::pageable;
}

} // namespace detail
} // namespace vram
