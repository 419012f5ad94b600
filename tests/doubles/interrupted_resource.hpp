// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interrupted_resource` runs a function of the test while it allocates or frees memory.

#include "minimal_resource.hpp" // minimal_resource

#include <cstddef>    // size_t
#include <functional> // function
#include <utility>    // exchange

namespace doubles {

/// Simulates another thread at the worst time: `meanwhile` is called once, when memory is allocated
/// and its owner does not have it yet, or when memory has been freed.
struct interrupted_resource : minimal_resource<> {
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        void* const p = minimal_resource::allocate_sync(n, a);
        interrupt();
        return p;
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        minimal_resource::deallocate_sync(p, n, a);
        interrupt();
    }
    void interrupt() {
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
    }

    std::function<void()> meanwhile;
};

static_assert(vram::synchronous_resource<interrupted_resource>);

} // namespace doubles
