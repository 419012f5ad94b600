// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_core` is the allocator inside `pool` and inside each shard of an `arena`.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/error.hpp>    // error, report_error
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/and_upstream.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/growth.hpp>
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/growing_base.hpp>
#include <vram/pool/core/pool_growth.hpp>
#include <vram/pool/core/pool_search.hpp>
#include <vram/pool/core/quick_lists.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // assignable_from
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// The implementation of `pool`: a heap of blocks in chunks of the upstream, with a lock, a limit
/// and a growth policy.
///
/// Threads   Any number of threads may call concurrently. Functions with a `guard` parameter need
///           the lock.
template <synchronous_resource Upstream, growth Growth>
class pool_core : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

public:
    using typename base::guard;
    using typename base::platform;
    using typename base::stream;
    using chunks        = typename pool_growth<Upstream, Growth>::model;
    using heap          = typename chunks::heap;
    using request       = typename heap::request;
    using chunk         = typename heap::chunk;
    using growth_policy = Growth;

    using base::budget_;
    using base::device_memory;
    using base::lock_;
    using base::name_;
    using base::order_of;
    using base::room;
    using base::seen;

    explicit pool_core(Upstream upstream, pool_options const& options = {}, Growth policy = {})
        : base{own_name, std::move(upstream), options.max_size},
          options_{options},
          heap_{options.events, options.graphs, options.initial_size == 0, large_limit(options)},
          growth_{this->upstream_, options, std::move(policy)} {
        growth_.chunks().attach(heap_);
        resource_call<platform> const own;
        if (options.initial_size != 0) { growth_.reserve(*this, options.initial_size); }
    }
    pool_core(pool_core&& other) noexcept
        : base{std::move(other)},
          options_{other.options_},
          heap_{std::move(other.heap_)},
          growth_{std::move(other.growth_)} {
        growth_.chunks().attach(heap_);
    }
    /// Returns all memory of this pool to its upstream, then takes over that of `other`.
    pool_core& operator=(pool_core&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        options_ = other.options_;
        heap_    = std::move(other.heap_);
        growth_  = std::move(other.growth_);
        growth_.chunks().attach(heap_);
        return *this;
    }
    ~pool_core() { give_everything_back(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return get_on<true>(s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment}, lock_.hold());
    }
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept {
        return base::or_null(bytes, [&] { return get_on<false>(s, bytes, alignment); });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        return base::or_null(bytes, [&] {
            return get<false>({.asked = bytes, .alignment = alignment}, lock_.hold());
        });
    }
    /// Allocates a block without a wait or a search: a cached block, or the first block of a free
    /// list. Returns null if neither is suitable.
    [[nodiscard]] void* try_allocate_cached(stream s, std::size_t bytes,
                                            std::size_t alignment = default_alignment) {
        auto const   held = lock_.hold();
        block* const b    = heap_.take_quick(s, bytes, alignment);
        return b != nullptr ? b->pointer() : nullptr;
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment) {
        request const r{.asked = bytes, .alignment = alignment, .on = &s};
        if (bytes == 0 || !r.possible() || !valid_alignment(alignment)) { return nullptr; }
        auto held      = lock_.hold();
        bool must_wait = false;
        return heap_.take(r, held, false, &must_wait);
    }

    /// Frees a block. Returns false, without a report, if no such live block begins at `p`.
    [[nodiscard]] bool try_deallocate(stream s, void* p, std::size_t bytes,
                                      std::size_t alignment = default_alignment) noexcept {
        auto         held = lock_.hold();
        block* const b    = heap_.live(p, bytes);
        if (heap_.give_quick(b, bytes, alignment, s)) [[likely]] { return true; }
        return put_on(s, b, bytes, alignment, std::move(held));
    }
    [[nodiscard]] bool try_deallocate_sync(void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment) noexcept {
        auto const   held = lock_.hold();
        block* const b    = heap_.live(p, bytes);
        return put(b, bytes, alignment, nullptr);
    }
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = lock_.hold();
        return heap_.blocks().owns(p);
    }
    [[nodiscard]] memory_usage usage() const {
        auto const   held = lock_.hold();
        memory_usage now =
            heap_.usage([&](block const& b) { return growth_.chunks().resident(b); });
        now.reserved      = budget_.usage.reserved;
        now.peak_reserved = budget_.usage.peak_reserved;
        now.past_peak     = budget_.usage.past_peak;
        now.upstream      = budget_.usage.upstream;
        now.restarts      = budget_.usage.restarts;
        return now;
    }
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = lock_.hold();
        return heap_.free_memory([&](block const& b) { return growth_.chunks().resident(b); });
    }
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        // The heap counts the live bytes and their peak. `restart_peaks` reads both numbers from
        // `budget_`.
        budget_.usage.live      = heap_.live_bytes();
        budget_.usage.peak_live = heap_.reset_peak();
        return budget_.usage.restart_peaks();
    }
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        budget_.usage.raise_peaks(before);
        heap_.raise_peak(before.peak_live);
    }
    std::size_t trim(std::size_t keep = 0) {
        auto const observers = seen();
        auto const waits     = observers.watch();
        return this->trim_beneath(growth_.trim(*this, keep));
    }
    std::size_t trim_no_wait() { return growth_.trim_no_wait(*this); }
    void        retire(stream s) {
        and_upstream::retire(this->upstream_, s, [&] {
            auto const held = lock_.hold();
            heap_.retire(s);
        });
    }
    void forget_captures() {
        auto const observers = seen();
        auto const waits     = observers.watch();
        and_upstream::forget_captures(this->upstream_,
                                      [&] { heap_.forget_captures(lock_.hold()); });
    }

    /// Reports a free of `p` that was rejected, and the reason. Does nothing if `p` is null.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        if (p == nullptr) { return; }
        this->report_refusal(p, bytes, alignment, on, at,
                             [&](auto& e) { heap_.explain_refusal(e); });
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }

    /// Returns the bytes that are reserved and not live. The lock must be held.
    [[nodiscard]] std::size_t unused() const noexcept {
        return budget_.usage.reserved - heap_.live_bytes();
    }

    pool_options                  options_;
    mutable heap                  heap_; ///< mutable: reading the usage coalesces cached blocks
    pool_growth<Upstream, Growth> growth_;

private:
    /// Name of the resource in error messages: `arena` if this pool is one of the pools (shards) of
    /// an arena, else `pool`.
    static constexpr char const* own_name = [] {
        if constexpr (requires { Upstream::pool_name; }) {
            return Upstream::pool_name;
        } else {
            return "pool";
        }
    }();

    /// Returns the size up to which a freed large block is cached (kept for the next request). With
    /// `pool_options::remap` it is 0: remapping cached blocks costs more than the cache saves.
    [[nodiscard]] static constexpr std::size_t large_limit(pool_options const& o) noexcept {
        return o.remap ? 0 : quick_lists::large_limit;
    }

    template <bool Throwing>
    [[gnu::always_inline]] void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        auto held = lock_.hold();
        if (block* const b = heap_.take_quick(s, bytes, alignment)) [[likely]] {
            return b->pointer();
        }
        return get_searched<Throwing>(s, bytes, alignment, std::move(held));
    }
    // Not inlined, so that `get_on` can keep the stream in a register.
    template <bool Throwing>
    [[gnu::noinline]] void* get_searched(stream s, std::size_t bytes, std::size_t alignment,
                                         guard held) {
        return get<Throwing>({.asked = bytes, .alignment = alignment, .on = &s}, std::move(held));
    }
    template <bool Throwing>
    void* get(request const& r, guard held) {
        if (r.asked != 0 && r.possible() && valid_alignment(r.alignment)) {
            if (void* const p = pool_search::take(*this, r, held)) { return p; }
            if (void* const p = pool_search::make_room(*this, r, held)) { return p; }
        }
        if (held.owns_lock()) { held.unlock(); }
        expects(valid_alignment(r.alignment), "pool: the alignment must be a power of two");
        if (r.asked == 0) { return nullptr; }
        return Throwing ? must_grow(r) : nullptr;
    }
    [[gnu::noinline]] bool put_on(stream s, block* b, std::size_t bytes, std::size_t alignment,
                                  guard /* until it returns */) noexcept {
        return put(b, bytes, alignment, &s);
    }
    /// Frees the block `b`, which the stream `on` (null: none) may still use. Returns false if the
    /// free is invalid: `b` is null, or was allocated with another size or alignment.
    bool put(block* b, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        return b != nullptr && heap_.give(b, bytes, alignment, on);
    }
    /// Last attempt: allocates the request in a new chunk that is just large enough. On failure,
    /// throws `out_of_memory` with the numbers of the pool, or another exception of the upstream.
    void* must_grow(request const& r) {
        return this->or_throw(
            {r.asked, r.bytes, r.alignment, r.on},
            [&]() -> void* {
                return r.possible() ? growth_.template new_chunk<true>(*this, r, r.bytes, &r)
                                    : nullptr;
            },
            [&] {
                // The heap counts the live bytes, but the exception gets their number from
                // `budget_`.
                budget_.usage.live = heap_.live_bytes();
                return heap_.blocks().largest_free();
            });
    }

    void give_everything_back() noexcept {
        if (is_ending<platform>() || heap_.blocks().empty()) { return; }
        auto const observers = seen();
        auto const waits     = observers.watch();
        if (heap_.live_bytes() != 0) {
            error left    = heap_.leak();
            left.resource = own_name;
            report_error(left);
            this->await_memory();
        }
        // The lock is taken because `wait_for_all` releases it. No other thread uses the pool now.
        auto held = lock_.hold();
        heap_.wait_for_all(held);
        held.unlock();
        heap_.blocks().for_each_chunk([&](chunk const& c) {
            observers.notify(memory_event_kind::chunk_removed, c.base, c.bytes);
            sited{this->upstream_}.deallocate_sync(c.base, c.bytes, c.alignment);
        });
    }
};

} // namespace detail
} // namespace vram
