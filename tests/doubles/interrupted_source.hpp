// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interrupted_source` is virtual memory that runs a function of the test during each of its
/// calls.

#include "interrupted_platform.hpp" // interrupted_platform, interrupted_pages

#include <vram/layer/layer_base.hpp>      // layer_base
#include <vram/source/virtual_source.hpp> // virtual_source

#include <cstddef> // size_t
#include <utility> // move

namespace doubles {

/// The function runs before each call that allocates, frees or remaps memory, or queries its
/// position.
class interrupted_source : public vram::layer_base<vram::virtual_source<interrupted_pages>> {
public:
    explicit interrupted_source(vram::virtual_options const& options)
        : layer_base{vram::virtual_source<interrupted_pages>{interrupted_pages{}, options}} {}

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        platform::interrupt();
        return upstream_.allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        platform::interrupt();
        return upstream_.try_allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        platform::interrupt();
        upstream_.deallocate_sync(p, n, a);
    }
    [[nodiscard]] std::size_t page_size() const noexcept { return upstream_.page_size(); }
    [[nodiscard]] bool        extend(void* p, std::size_t n, std::size_t more) noexcept {
        platform::interrupt();
        return upstream_.extend(p, n, more);
    }
    std::size_t shrink(void* p, std::size_t n, std::size_t less) noexcept {
        platform::interrupt();
        return upstream_.shrink(p, n, less);
    }
    [[nodiscard]] bool widen(void* p, std::size_t n, std::size_t more) noexcept {
        platform::interrupt();
        return upstream_.widen(p, n, more);
    }
    [[nodiscard]] std::size_t mapped(void const* q, std::size_t n) const noexcept {
        platform::interrupt();
        return upstream_.mapped(q, n);
    }
    [[nodiscard]] bool fill(void* q, std::size_t n) noexcept {
        platform::interrupt();
        return upstream_.fill(q, n);
    }
    std::size_t drop(void* q, std::size_t n) noexcept {
        platform::interrupt();
        return upstream_.drop(q, n);
    }
    std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept {
        platform::interrupt();
        return upstream_.remap(from, n, to, m);
    }
    [[nodiscard]] void* moved_to(void const* q) const noexcept {
        platform::interrupt();
        return upstream_.moved_to(q);
    }
};
static_assert(vram::remappable_resource<interrupted_source>);

} // namespace doubles
