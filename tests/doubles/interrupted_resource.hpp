// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interrupted_resource` lets somebody in while it hands memory out or takes it back.

#include "minimal_resource.hpp" // minimal_resource

#include <cstddef>    // size_t
#include <functional> // function
#include <utility>    // exchange

namespace doubles {

/// What another thread might do at the worst moment, without another thread: `meanwhile` is called
/// once, when the memory is there and its owner does not know of it yet, or when it is gone.
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
