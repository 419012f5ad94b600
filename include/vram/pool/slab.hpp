// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab` allocates blocks of one size.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/error.hpp>    // report_error
#include <vram/base/over_size.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/observer.hpp>       // memory_event_kind
#include <vram/concepts/powers.hpp>         // fallible_resource
#include <vram/layer/with.hpp>              // with::layer
#include <vram/pool/core/slab_base.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // default_initializable, assignable_from
#include <cstddef>
#include <utility>

namespace vram {

/// Allocates blocks of one size, cut from chunks of the upstream. If a stream may still use a free
/// block, the requesting stream (for `allocate_sync`, the host) waits only for that stream.
///
///     slab<stream_ordered<cuda_resource>> tiles{64_KiB};
///     slab mr{cuda_resource{}, 64_KiB, {.initial_size = 1_GiB}};
///
/// Failure   A request above the block size, or with an unsuitable alignment, throws `over_size`;
///           otherwise as `pool`.
/// Threads   Any number of threads may call concurrently.
/// Streams   As `pool`.
/// Cost      Constant at any number of blocks; about 50 bytes of host memory for each block.
template <class Upstream>
class slab : public detail::slab_base<detail::checked_upstream<Upstream>> {
    using base = detail::slab_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates a slab over a default-constructed upstream.
    explicit slab(std::size_t block_bytes, pool_options options = {})
        requires std::default_initializable<Upstream>
        : slab{Upstream{}, block_bytes, options} {}

    /// Creates a slab over `upstream`, and reserves `options.initial_size` bytes, rounded up to
    /// whole blocks. If `max_size` does not permit that, reserves as many whole blocks as it
    /// permits. Throws the exceptions of the upstream.
    slab(Upstream upstream, std::size_t block_bytes, pool_options options = {})
        : base{"slab", std::move(upstream), options.max_size, options.events, options.graphs} {
        expects(block_bytes != 0 && block_bytes <= detail::slab_heap::largest,
                "slab: the block size must be from 1 to 2^56 bytes");
        detail::expect_no_page_options(
            options, "slab: `remap` and `slack` have no effect; leave them out, or use a pool over "
                     "virtual memory");
        expects(options.initial_size <= options.max_size,
                "slab: `initial_size` must not exceed `max_size`");
        this->heaps_.push(block_bytes);
        this->grow_ahead(this->heaps_[0], options.initial_size);
    }
    /// Rejects copies at compile time. The error message names alternatives: move, borrow, share.
    template <std::same_as<slab> Same>
    slab(Same& other) : slab{detail::refuse_copy(other)} {}
    template <std::same_as<slab> Same>
    slab& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves a slab that no other thread uses and to which no handle (`resource_ref`) refers. The
    /// moved-from slab can only be destroyed or assigned to.
    slab(slab&&) = default;
    slab& operator=(slab&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        this->give_everything_back();
        base::operator=(std::move(other));
        return *this;
    }

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that `at` (the line of the caller) costs nothing if there is no observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] { return get_on<true>(s, bytes, alignment); });
    }
    /// Allocates memory that any stream may use at once. The host may first wait for streams.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return get_block<true>(bytes, alignment, nullptr); });
    }

    /// Allocates as `allocate` does, but returns null instead of throwing. The error sink (function
    /// for errors that cannot be thrown) receives errors other than lack of memory.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] {
            return this->or_null(bytes, [&] { return get_block<false>(bytes, alignment, &s); });
        });
    }
    /// Allocates as `allocate_sync` does, but returns null instead of throwing. The error sink
    /// (function for errors that cannot be thrown) receives errors other than lack of memory.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at, [&] {
            return this->or_null(bytes,
                                 [&] { return get_block<false>(bytes, alignment, nullptr); });
        });
    }

    /// Frees a block. Only work enqueued on the stream `s` before this call may still use it. An
    /// invalid free is reported and frees nothing.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!put_on(s, p, bytes, alignment)) [[unlikely]] { refuse_on(s, p, bytes, alignment, at); }
    }
    /// Frees a block that no stream uses any more: the program has waited for all of its uses.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!put_block(p, bytes, alignment, nullptr)) [[unlikely]] {
            refuse(p, bytes, alignment, nullptr, at);
        }
    }

    /// Returns the block size: the constructor's `block_bytes`, rounded up to a multiple of 256.
    [[nodiscard]] std::size_t block_bytes() const noexcept { return this->heaps_[0].stride(); }
    /// Returns the size of a block. If `bytes` is 0, or more than the size of a block, returns
    /// `bytes`.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t /* alignment */) const noexcept {
        return bytes == 0 || bytes > block_bytes() ? bytes : block_bytes();
    }

private:
    template <bool Throwing>
    void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        return get_block<Throwing>(bytes, alignment, &s);
    }
    template <bool Throwing>
    void* get_block(std::size_t bytes, std::size_t alignment, stream const* on) {
        expects(valid_alignment(alignment), "slab: the alignment must be a power of two");
        if (bytes == 0) { return nullptr; }
        detail::slab_heap& heap = this->heaps_[0];
        if (bytes > heap.stride() || alignment > heap.alignment()) {
            if constexpr (Throwing) { throw over_size{bytes, alignment, heap.stride()}; }
            return nullptr;
        }
        return this->template get<Throwing>(heap, {bytes, heap.stride(), alignment, on});
    }
    /// Frees the block at `p`, which the stream `*on` may still use. If `on` is null, no stream
    /// uses the block. Returns false if the free is invalid. Ignores a null `p`.
    [[nodiscard]] bool put_block(void* p, std::size_t bytes, std::size_t alignment,
                                 stream const* on) noexcept {
        if (p == nullptr) { return true; }
        auto const held = this->lock_.hold();
        return this->put(this->heaps_[0], p, bytes, alignment, on);
    }
    [[nodiscard]] bool put_on(stream s, void* p, std::size_t bytes,
                              std::size_t alignment) noexcept {
        return put_block(p, bytes, alignment, &s);
    }
    /// Reports a free that was rejected, and the reason.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        this->report_refusal(p, bytes, alignment, on, at,
                             [&](auto& e) { (void)this->heaps_.explain_refusal(e); });
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }
};

namespace with {
/// Puts a slab with blocks of `block_bytes` over a resource: `source | with::slab(64_KiB)`.
[[nodiscard]] inline auto slab(std::size_t block_bytes, pool_options options = {}) {
    return layer<vram::slab>(block_bytes, options);
}
} // namespace with

} // namespace vram
