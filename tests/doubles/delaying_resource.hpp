// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `delaying_resource` waits after it has freed memory, so that another thread can get the same
/// address.

#include <vram/layer/layer_base.hpp> // layer_base

#include <chrono>  // microseconds
#include <cstddef> // size_t
#include <thread>  // sleep_for
#include <utility> // move

namespace doubles {

/// With several threads it detects a layer that removes a block from its tables after `deallocate`,
/// which is too late.
template <vram::synchronous_resource Upstream>
class delaying_resource : public vram::layer_base<Upstream> {
    using base = vram::layer_base<Upstream>;

public:
    using typename base::stream;

    explicit delaying_resource(Upstream                  upstream,
                               std::chrono::microseconds delay = std::chrono::microseconds{50})
        : base{std::move(upstream)}, delay_{delay} {}

    [[nodiscard]] void* allocate(stream s, std::size_t n, std::size_t a = vram::default_alignment)
        requires vram::resource<Upstream>
    {
        return this->upstream_.allocate(s, n, a);
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return this->upstream_.allocate_sync(n, a);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t n,
                                     std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream> && vram::fallible_resource<Upstream>
    {
        return this->upstream_.try_allocate(s, n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept
        requires vram::fallible_resource<Upstream>
    {
        return this->upstream_.try_allocate_sync(n, a);
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream>
    {
        this->upstream_.deallocate(s, p, n, a);
        std::this_thread::sleep_for(delay_);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, a);
        std::this_thread::sleep_for(delay_);
    }

private:
    std::chrono::microseconds delay_;
};

} // namespace doubles
