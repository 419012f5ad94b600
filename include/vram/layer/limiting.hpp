// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `limiting` gives a resource a budget.

#include <vram/base/call_site.hpp>       // call_site
#include <vram/base/gauge.hpp>           // gauge
#include <vram/base/over_limit.hpp>      // over_limit
#include <vram/concepts/sited.hpp>       // sited
#include <vram/layer/layer_base.hpp>     // layer_base
#include <vram/layer/with.hpp>           // with::layer
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <cstddef> // size_t
#include <utility> // move, exchange

namespace vram {

/// A resource that never has more than `limit` bytes out at once.
///
///     limiting mr{cuda_async_resource{}, 2_GiB};
///
/// Bytes are counted as they are asked for. Put the layer *under* a pool to bound what the pool
/// takes from the device, *over* a pool to bound what the clients take from the pool.
///
/// Failure   `over_limit` before the upstream is asked; when the upstream fails, the budget is as
///           it was
/// Threads   as safe as the upstream; the budget itself never races, never overshoots, never
///           refuses what fits
/// Cost      one atomic operation per call
template <synchronous_resource Upstream>
class limiting : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;

    limiting(Upstream upstream, std::size_t limit) : base{std::move(upstream)}, limit_{limit} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        reservation held{*this, bytes};
        return held.keep(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        reservation held{*this, bytes};
        return held.keep(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        if (!used_.try_add(bytes, limit_)) { return nullptr; }
        return kept(sited{this->upstream_, at}.try_allocate(s, bytes, alignment), bytes);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        if (!used_.try_add(bytes, limit_)) { return nullptr; }
        return kept(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment), bytes);
    }

    // The budget opens only when the memory is back: nobody may be let in on bytes that are still
    // out.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
        if (p != nullptr) { used_.sub(bytes); }
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        if (p != nullptr) { used_.sub(bytes); }
    }

    /// Bytes out now, as they were asked for.
    [[nodiscard]] std::size_t used() const noexcept { return used_.used(); }
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

private:
    /// Bytes taken from the budget, given back unless the upstream delivered.
    class reservation {
    public:
        reservation(limiting& owner, std::size_t bytes) : owner_{owner}, bytes_{bytes} {
            if (!owner.used_.try_add(bytes, owner.limit_)) {
                throw over_limit{bytes, owner.used(), owner.limit_};
            }
        }
        ~reservation() { owner_.used_.sub(bytes_); }

        void* keep(void* p) noexcept {
            bytes_ = 0;
            return p;
        }

    private:
        limiting&   owner_;
        std::size_t bytes_;
    };

    void* kept(void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { used_.sub(bytes); }
        return p;
    }

    gauge       used_;
    std::size_t limit_;
};

namespace with {
/// `source | with::limiting(8_GiB)`
[[nodiscard]] inline auto limiting(std::size_t limit) { return layer<vram::limiting>(limit); }
} // namespace with

// A layer adds behaviour, never removes capability.
static_assert(powers<limiting<null_resource<>>>::include<null_resource<>>);
static_assert(sizeof(limiting<null_resource<>>) == 2 * sizeof(std::size_t));

} // namespace vram
