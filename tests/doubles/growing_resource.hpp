// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growing_resource` is virtual memory whose blocks grow where they lie, and that can do no more.

#include <vram/concepts/expandable.hpp>      // expandable_resource
#include <vram/layer/layer_base.hpp>         // layer_base
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource

#include <cstddef> // size_t
#include <utility> // move

namespace doubles {

/// A pool over it has memory added at a chunk's end, and moves no pages.
template <vram::expandable_resource Pages = vram::sim_virtual_resource>
class growing_resource : public vram::layer_base<Pages> {
    using vram::layer_base<Pages>::upstream_;

public:
    explicit growing_resource(Pages up) : vram::layer_base<Pages>{std::move(up)} {}

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return upstream_.allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        return upstream_.try_allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        upstream_.deallocate_sync(p, n, a);
    }
    [[nodiscard]] std::size_t page_size() const noexcept { return upstream_.page_size(); }
    [[nodiscard]] bool        extend(void* p, std::size_t n, std::size_t more) noexcept {
        return upstream_.extend(p, n, more);
    }
    std::size_t shrink(void* p, std::size_t n, std::size_t less) noexcept {
        return upstream_.shrink(p, n, less);
    }
};
static_assert(vram::expandable_resource<growing_resource<>> &&
              !vram::remappable_resource<growing_resource<>>);

} // namespace doubles
