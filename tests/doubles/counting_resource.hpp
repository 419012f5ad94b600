// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counting_resource` records allocations and frees in a ledger: size, alignment and stream.

#include "ledger.hpp" // ledger

#include <vram/layer/layer_base.hpp> // layer_base

#include <cstddef> // size_t
#include <utility> // move

namespace doubles {

/// Placed under a layer, it shows how the layer uses its upstream. It has the powers of its own
/// upstream.
template <vram::synchronous_resource Upstream>
class counting_resource : public vram::layer_base<Upstream> {
    using base = vram::layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    counting_resource(Upstream upstream, ledger& book) : base{std::move(upstream)}, book_{&book} {}

    [[nodiscard]] void* allocate(stream s, std::size_t n, std::size_t a = vram::default_alignment)
        requires vram::resource<Upstream>
    {
        return noted(this->upstream_.allocate(s, n, a), n, a, platform::id(s));
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return noted(this->upstream_.allocate_sync(n, a), n, a, no_stream);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t n,
                                     std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream> && vram::fallible_resource<Upstream>
    {
        return noted(this->upstream_.try_allocate(s, n, a), n, a, platform::id(s));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept
        requires vram::fallible_resource<Upstream>
    {
        return noted(this->upstream_.try_allocate_sync(n, a), n, a, no_stream);
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream>
    {
        book_->gave(p, n, a, platform::id(s));
        this->upstream_.deallocate(s, p, n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        book_->gave(p, n, a, no_stream);
        this->upstream_.deallocate_sync(p, n, a);
    }

    [[nodiscard]] ledger& book() const noexcept { return *book_; }

private:
    void* noted(void* p, std::size_t n, std::size_t a, std::uint64_t id) {
        book_->took(p, n, a, id);
        return p;
    }

    ledger* book_;
};

} // namespace doubles
