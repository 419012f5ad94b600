// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_directory` allocates the chunks of all shards of an arena, and records the owner of each.

#include <vram/base/align.hpp> // saturating_add
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/observation.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/powers.hpp> // resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/chunk_budget.hpp>
#include <vram/pool/core/chunk_map.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Allocates the chunks of all shards (pools) of an arena from the upstream, and records the owner
/// of each. A limit applies to the sum of the chunks.
///
/// Failure   `take` throws exceptions of the upstream and `std::bad_alloc`, and `out_of_memory` at
///           the limit. `take<false>` returns null if the limit or the upstream refuses.
/// Threads   Any number of threads may call concurrently; a move needs exclusive access.
template <synchronous_resource Upstream>
class chunk_directory {
public:
    using platform = typename Upstream::platform;
    using stream   = typename platform::stream;

    /// `max_size`: limit on the reserved bytes of all shards. Above `trim_above` reserved bytes,
    /// `above_watermark` becomes true: chunks without a live block should be returned.
    chunk_directory(Upstream& upstream, std::size_t max_size, std::size_t trim_above) noexcept
        : upstream_{&upstream}, least_{trim_above}, budget_{max_size}, watermark_{trim_above} {}
    chunk_directory(chunk_directory&& other) noexcept
        : above_watermark_{other.above_watermark_.exchange(false)},
          upstream_{other.upstream_},
          least_{other.least_},
          chunks_{std::move(other.chunks_)},
          budget_{std::move(other.budget_)},
          watermark_{std::exchange(other.watermark_, other.least_)} {}
    chunk_directory& operator=(chunk_directory&& other) noexcept {
        upstream_        = other.upstream_;
        chunks_          = std::move(other.chunks_);
        budget_          = std::move(other.budget_);
        least_           = other.least_;
        watermark_       = std::exchange(other.watermark_, other.least_);
        above_watermark_ = other.above_watermark_.exchange(false);
        return *this;
    }

    /// Sets the address of the upstream after the upstream was moved.
    void                    rebind(Upstream& upstream) noexcept { upstream_ = &upstream; }
    [[nodiscard]] Upstream& upstream() const noexcept { return *upstream_; }
    /// Returns the object through which the arena and its shards notify the observers, in the name
    /// of the arena. `chunk_directory` itself notifies no observer.
    [[nodiscard, gnu::always_inline]] observation<Upstream> seen() const noexcept {
        return {*upstream_, "arena", this};
    }

    /// Allocates a chunk for the shard `owner` in the order of the stream `on`, if that is not
    /// null.
    template <bool Throwing>
    [[nodiscard]] void* take(unsigned owner, stream const* on, std::size_t bytes,
                             std::size_t alignment) {
        void* const at = budget_.template grow<Throwing>(unseen{}, lock_, *upstream_, bytes,
                                                         alignment, on, recorder(owner, bytes));
        if constexpr (Throwing) {
            if (at == nullptr) {
                throw out_of_memory{{.asked     = bytes,
                                     .rounded   = bytes,
                                     .alignment = alignment,
                                     .reserved  = reserved(),
                                     .limit     = budget_.limit()}};
            }
        }
        return at;
    }
    /// Allocates a chunk for the shard `owner` that the stream `s` can use without a wait. Returns
    /// null on failure.
    [[nodiscard]] void* take_ready(unsigned owner, stream s, std::size_t bytes,
                                   std::size_t alignment)
        requires reusing_resource<Upstream>
    {
        return budget_.grow_ready(unseen{}, lock_, *upstream_, bytes, alignment, s,
                                  recorder(owner, bytes));
    }
    /// Returns to the upstream a chunk that no stream uses.
    void give(void* at, std::size_t bytes, std::size_t alignment) noexcept {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate_sync(at, bytes, alignment); });
    }
    /// Returns to the upstream a chunk that the stream `s` may still use.
    void give(stream s, void* at, std::size_t bytes, std::size_t alignment) noexcept
        requires resource<Upstream>
    {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate(s, at, bytes, alignment); });
    }

    /// Returns the number of the shard that owns the chunk around `p`, or `chunk_map::nobody`.
    /// Takes the lock only if chunks keep changing.
    [[nodiscard]] unsigned owner_of(void const* p) const {
        unsigned const seen = chunks_.try_find(p);
        if (seen != chunk_map::contended) { return seen; }
        auto const held = lock_.hold();
        return chunks_.find(p);
    }
    [[nodiscard]] std::size_t reserved() const {
        auto const held = lock_.hold();
        return budget_.usage.reserved;
    }
    /// Completes `figures`, the sum of the shards' usage: sets the reserved bytes and their peak,
    /// applies `raise_peaks`, and limits `past_peak` to the most bytes ever reserved.
    void report_to(memory_usage& figures) const {
        auto const          held = lock_.hold();
        memory_usage const& own  = budget_.usage;
        figures.reserved         = own.reserved;
        figures.peak_reserved    = own.peak_reserved;
        figures.restarts += own.restarts;
        if (own.peak_live > figures.peak_live) { figures.peak_live = own.peak_live; }
        std::size_t const most = budget_.most_reserved();
        if (figures.past_peak > most) { figures.past_peak = most; }
    }
    /// Sets the peak of the reserved bytes to the bytes reserved now, and returns the peaks before.
    memory_usage reset_peaks() noexcept {
        auto const         held   = lock_.hold();
        memory_usage const before = budget_.usage.restart_peaks();
        return {.reserved      = before.reserved,
                .peak_live     = before.peak_live,
                .peak_reserved = before.peak_reserved};
    }
    /// Raises the peaks of the reserved and live bytes to at least those in `before`, a result of
    /// `reset_peaks`. `report_to` then reports at least these.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        budget_.usage.raise_peaks(before);
    }

    /// Returns true if the reserved bytes have exceeded the watermark since `reset_watermark`, so
    /// that chunks without a live block should be returned.
    [[nodiscard]] bool above_watermark() const noexcept {
        return above_watermark_.load(std::memory_order_relaxed);
    }
    /// Makes `above_watermark` false until the reserved bytes exceed both `trim_above` and 1.25
    /// times their present number.
    void reset_watermark() {
        auto const        held = lock_.hold();
        std::size_t const next = saturating_add(budget_.usage.reserved, budget_.usage.reserved / 4);
        watermark_             = next > least_ ? next : least_;
        above_watermark_.store(false, std::memory_order_relaxed);
    }

private:
    /// Returns a function that records a new chunk and its owner, and updates `above_watermark_`.
    /// It must be called with the lock held.
    [[nodiscard]] auto recorder(unsigned owner, std::size_t bytes) noexcept {
        return [this, owner, bytes](void* at) {
            chunks_.reserve(1);
            chunks_.insert(at, bytes, owner);
            if (budget_.usage.reserved + bytes > watermark_) {
                above_watermark_.store(true, std::memory_order_relaxed);
            }
            return at;
        };
    }
    /// Removes a chunk from the map, then calls `call()`, which returns the chunk to the upstream.
    template <class Call>
    void hand_back(void* at, std::size_t bytes, Call call) noexcept {
        auto held = lock_.hold();
        chunks_.erase(at); // before `call()`: after it, another owner may get the address
        budget_.give_back(bytes, held, call);
    }

    // Data that every call reads, and data that growth writes, lie on different cache lines.
    alignas(64) std::atomic<bool> above_watermark_ = false;
    Upstream*   upstream_;
    std::size_t least_;
    chunk_map   chunks_;
    alignas(64) platform_lock<platform> lock_;
    /// The limit and the reserved bytes of all shards together. Live bytes are counted by the
    /// shards: here, `peak_live` is 0 or set by `raise_peaks`.
    chunk_budget budget_;
    std::size_t watermark_; ///< number of reserved bytes above which `above_watermark` becomes true
};

} // namespace detail
} // namespace vram
