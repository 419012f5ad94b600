// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_registry` allocates the chunks of all shards of an arena, and records the owner of each.

#include <vram/base/align.hpp>         // saturating_add
#include <vram/base/memory_usage.hpp>  // memory_usage
#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/concepts/powers.hpp>    // resource, reusing_resource
#include <vram/concepts/sited.hpp>     // sited
#include <vram/pool/ask_upstream.hpp>  // ask_upstream
#include <vram/pool/chunk_map.hpp>     // chunk_map
#include <vram/pool/platform_lock.hpp> // platform_lock

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // move, exchange

namespace vram {

/// Allocates chunks from a borrowed upstream for owners that are identified by numbers, never more
/// than `max_size` bytes in total. It tells when idle chunks should be returned. The upstream is
/// called without the lock.
///
/// Failure   The exceptions of the upstream are rethrown. If the limit refuses a chunk,
///           `out_of_memory` contains the limit. If host memory cannot be allocated,
///           `std::bad_alloc` is thrown. In both cases the upstream is not called.
/// Threads   Any number of threads may call concurrently, if the upstream permits that. An object
///           that is moved must not be shared.
/// Cost      A call of the upstream and the lock twice.
template <synchronous_resource Upstream>
class chunk_registry {
public:
    using platform = typename Upstream::platform;
    using stream   = typename platform::stream;

    /// `trim_above`: the reserved bytes above which idle chunks should be returned.
    chunk_registry(Upstream& upstream, std::size_t max_size, std::size_t trim_above) noexcept
        : upstream_{&upstream}, max_size_{max_size}, least_{trim_above}, crowd_{trim_above} {}
    chunk_registry(chunk_registry&& other) noexcept
        : crowded_{other.crowded_.exchange(false)},
          upstream_{other.upstream_},
          max_size_{other.max_size_},
          least_{other.least_},
          chunks_{std::move(other.chunks_)},
          reserved_{std::exchange(other.reserved_, 0)},
          peak_{std::exchange(other.peak_, 0)},
          peak_live_{std::exchange(other.peak_live_, 0)},
          past_{std::exchange(other.past_, 0)},
          restarts_{std::exchange(other.restarts_, 0)},
          crowd_{std::exchange(other.crowd_, other.least_)} {}
    chunk_registry& operator=(chunk_registry&& other) noexcept {
        upstream_  = other.upstream_;
        chunks_    = std::move(other.chunks_);
        max_size_  = other.max_size_;
        reserved_  = std::exchange(other.reserved_, 0);
        peak_      = std::exchange(other.peak_, 0);
        peak_live_ = std::exchange(other.peak_live_, 0);
        past_      = std::exchange(other.past_, 0);
        restarts_  = std::exchange(other.restarts_, 0);
        least_     = other.least_;
        crowd_     = std::exchange(other.crowd_, other.least_);
        crowded_   = other.crowded_.exchange(false);
        return *this;
    }

    /// Sets the address of the upstream after it was moved.
    void                    rebind(Upstream& upstream) noexcept { upstream_ = &upstream; }
    [[nodiscard]] Upstream& upstream() const noexcept { return *upstream_; }

    /// Allocates a chunk for `owner` in the order of the stream `on`, or with `allocate_sync`
    /// (null). If the limit or the upstream refuses it, throws, or returns null if not `Throwing`.
    template <bool Throwing>
    [[nodiscard]] void* take(unsigned owner, stream const* on, std::size_t bytes,
                             std::size_t alignment) {
        claim mine{*this, bytes};
        if (!mine.granted) {
            if constexpr (Throwing) {
                throw out_of_memory{{.asked     = bytes,
                                     .rounded   = bytes,
                                     .alignment = alignment,
                                     .reserved  = reserved(),
                                     .limit     = max_size_}};
            }
            return nullptr;
        }
        void* const at = ask_upstream<Throwing>(*upstream_, on, bytes, alignment);
        if (at != nullptr) { mine.keep(at, owner); }
        return at;
    }
    /// Allocates a chunk that the upstream has ready for a stream. Returns null if it has none, if
    /// the limit refuses it, or if host memory cannot be allocated.
    [[nodiscard]] void* take_at_once(unsigned owner, stream s, std::size_t bytes,
                                     std::size_t alignment)
        requires reusing_resource<Upstream>
    {
        if (bytes > room()) { return nullptr; }
        void* const at = upstream_->try_allocate_ready(s, bytes, alignment);
        if (at == nullptr) { return nullptr; }
        // The limit is claimed after the chunk was obtained; claiming it before could refuse
        // another thread for nothing.
        try {
            claim mine{*this, bytes};
            if (mine.granted) {
                mine.keep(at, owner);
                return at;
            }
        } catch (std::bad_alloc const&) {} // no host memory for the chunk map
        sited{*upstream_}.deallocate(s, at, bytes, alignment);
        return nullptr;
    }
    /// Returns a chunk that no stream uses to the upstream.
    void give(void* at, std::size_t bytes, std::size_t alignment) noexcept {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate_sync(at, bytes, alignment); });
    }
    /// Returns a chunk that the stream `s` may still use to the upstream.
    void give(stream s, void* at, std::size_t bytes, std::size_t alignment) noexcept
        requires resource<Upstream>
    {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate(s, at, bytes, alignment); });
    }

    /// Returns the owner of the chunk that contains `p`, or `chunk_map::nobody`. Cost: no lock,
    /// unless chunks are added or removed at the same time.
    [[nodiscard]] unsigned owner_of(void const* p) const {
        unsigned const seen = chunks_.glance(p);
        if (seen != chunk_map::unclear) { return seen; }
        auto const held = lock_.hold();
        return chunks_.find(p);
    }
    [[nodiscard]] std::size_t reserved() const {
        auto const held = lock_.hold();
        return reserved_;
    }
    /// Writes the reserved bytes and their peak into `figures`, raises `peak_live` to the value set
    /// by `raise_peaks`, limits `past_peak` to the most bytes ever reserved, and adds the number of
    /// restarts.
    void report_to(memory_usage& figures) const {
        auto const held       = lock_.hold();
        figures.reserved      = reserved_;
        figures.peak_reserved = peak_;
        figures.restarts += restarts_;
        if (peak_live_ > figures.peak_live) { figures.peak_live = peak_live_; }
        std::size_t const most = peak_ > past_ ? peak_ : past_;
        if (figures.past_peak > most) { figures.past_peak = most; }
    }
    /// Restarts the peak from the bytes that are reserved now, and returns the usage until now.
    /// `peak_live` is the value set by `raise_peaks`.
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        past_           = peak_ > past_ ? peak_ : past_;
        ++restarts_;
        return {.reserved      = reserved_,
                .peak_live     = std::exchange(peak_live_, 0),
                .peak_reserved = std::exchange(peak_, reserved_)};
    }
    /// Raises the peaks to at least those of `before`. The peak of live bytes is stored for the sum
    /// over all owners, which know only their own.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        peak_           = before.peak_reserved > peak_ ? before.peak_reserved : peak_;
        peak_live_      = before.peak_live > peak_live_ ? before.peak_live : peak_live_;
        ++restarts_;
    }

    /// Returns true if so many bytes are reserved that idle chunks should be returned. Cost: one
    /// load.
    [[nodiscard]] bool crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }
    /// Called after idle chunks were returned: `crowded` is true again once a quarter more is
    /// reserved than now.
    void set_crowd() {
        auto const        held = lock_.hold();
        std::size_t const next = saturating_add(reserved_, reserved_ / 4);
        crowd_                 = next > least_ ? next : least_;
        crowded_.store(false, std::memory_order_relaxed);
    }

private:
    [[nodiscard]] std::size_t room() const {
        auto const held = lock_.hold();
        return left();
    }
    /// Returns the bytes within the limit that are neither reserved nor being allocated. The lock
    /// must be held.
    [[nodiscard]] std::size_t left() const noexcept {
        std::size_t const out = reserved_ + under_way_;
        return out < max_size_ ? max_size_ - out : 0;
    }
    /// Removes a chunk from the map, then calls `call()`, which returns it to the upstream: after
    /// that, another owner may get the address. Its bytes count against the limit until the call
    /// has returned.
    template <class Call>
    void hand_back(void* at, std::size_t bytes, Call call) noexcept {
        {
            auto const held = lock_.hold();
            chunks_.erase(at);
            reserved_ -= bytes;
            under_way_ += bytes;
        }
        call();
        auto const held = lock_.hold();
        under_way_ -= bytes;
    }

    /// Bytes of the limit, and room in the map, claimed for a chunk that is being allocated.
    struct claim {
        chunk_registry&   all;
        std::size_t const bytes;
        bool              granted;

        claim(chunk_registry& r, std::size_t n) : all{r}, bytes{n} {
            auto const held = r.lock_.hold();
            granted         = n <= r.left();
            if (!granted) { return; }
            // Chunks that are being allocated have no entry in the map yet.
            r.chunks_.reserve(r.claims_ + 1);
            r.under_way_ += n;
            ++r.claims_;
        }
        claim(claim const&) = delete;
        ~claim() {
            if (!granted) { return; }
            auto const held = all.lock_.hold();
            drop();
        }

        /// Turns the claimed bytes into a reserved chunk at `at`.
        void keep(void* at, unsigned owner) noexcept {
            auto const held = all.lock_.hold();
            drop();
            granted = false;
            all.chunks_.insert(at, bytes, owner);
            all.reserved_ += bytes;
            if (all.reserved_ > all.peak_) { all.peak_ = all.reserved_; }
            if (all.reserved_ > all.crowd_) { all.crowded_.store(true, std::memory_order_relaxed); }
        }
        void drop() noexcept {
            all.under_way_ -= bytes;
            --all.claims_;
        }
    };

    // Data that every call reads, and data that growth writes, lie on different cache lines.
    alignas(64) std::atomic<bool> crowded_ = false;
    Upstream*   upstream_;
    std::size_t max_size_;
    std::size_t least_;
    chunk_map   chunks_;
    alignas(64) platform_lock<platform> lock_;
    std::size_t reserved_ = 0;
    std::size_t peak_     = 0; ///< peak of `reserved_`
    /// As set by `raise_peaks`; the owners count live bytes themselves.
    std::size_t   peak_live_ = 0;
    std::size_t   past_      = 0; ///< the highest peak before the last restart
    std::uint64_t restarts_  = 0; ///< number of times that the peaks were restarted or raised
    std::size_t   under_way_ = 0; ///< bytes that are being allocated or returned
    std::size_t   claims_    = 0; ///< number of chunks being allocated
    std::size_t   crowd_;
};

} // namespace vram
