// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `failing_resource` fails when its plan says so: `allocate` throws, `try_allocate` returns null.

#include "faults.hpp" // faults, machine_failure

#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/layer/layer_base.hpp>   // layer_base

#include <cstddef> // size_t
#include <utility> // move

namespace doubles {

/// A request of zero bytes never fails, because it allocates nothing.
template <vram::synchronous_resource Upstream>
class failing_resource : public vram::layer_base<Upstream> {
    using base = vram::layer_base<Upstream>;

public:
    using typename base::stream;

    failing_resource(Upstream upstream, faults& plan) : base{std::move(upstream)}, plan_{&plan} {}

    [[nodiscard]] void* allocate(stream s, std::size_t n, std::size_t a = vram::default_alignment)
        requires vram::resource<Upstream>
    {
        maybe_throw(n, a);
        return this->upstream_.allocate(s, n, a);
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        maybe_throw(n, a);
        return this->upstream_.allocate_sync(n, a);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t n,
                                     std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream> && vram::fallible_resource<Upstream>
    {
        return n != 0 && plan_->strikes() ? nullptr : this->upstream_.try_allocate(s, n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept
        requires vram::fallible_resource<Upstream>
    {
        return n != 0 && plan_->strikes() ? nullptr : this->upstream_.try_allocate_sync(n, a);
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t a = vram::default_alignment) noexcept
        requires vram::resource<Upstream>
    {
        this->upstream_.deallocate(s, p, n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, a);
    }

private:
    void maybe_throw(std::size_t n, std::size_t a) {
        if (n == 0 || !plan_->strikes()) { return; }
        if (plan_->machine()) { throw machine_failure{}; }
        throw vram::out_of_memory{{.asked = n, .rounded = n, .alignment = a}};
    }

    faults* plan_;
};

} // namespace doubles
