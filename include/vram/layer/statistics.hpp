// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `statistics` is a layer that counts live bytes and blocks, their peaks and totals, also for
/// nested scopes.

#include <vram/base/call_site.hpp>
#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/counter.hpp>
#include <vram/concepts/core/diagnosed.hpp>    // refuse_copy, checked_upstream
#include <vram/concepts/core/refused_free.hpp> // was_freed
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, measured_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/core/scope_counters.hpp> // scope_counters, no_histograms
#include <vram/layer/histograms.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::word

#include <concepts> // default_initializable
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// The counts of all allocations and frees in a scope (from its `push` to its `pop`), or since the
/// layer was created.
struct counters {
    /// Counters of requested bytes. `value`: bytes allocated minus bytes freed. In a scope, `value`
    /// is negative if more bytes from before the scope were freed. `peak` is at least 0.
    counter bytes;
    counter blocks; ///< numbers of blocks: `value` allocated minus freed, `total` allocations
    /// Number of requests of more than 0 bytes that failed, by an exception or by null. Calls of
    /// `try_allocate_ready` are not counted.
    std::uint64_t refusals = 0;

    friend bool operator==(counters const&, counters const&) = default;
};

/// A layer that counts its allocations and frees, in total and in scopes (from `push` to `pop`).
///
///     statistics mr{pool{cuda_resource{}}};
///     mr.push();
///     train_step(mr);
///     auto const step = mr.pop();   // step.bytes.peak: the peak of this step alone
///
/// With `with::histograms`, the layer also counts sizes and lifetimes by powers of two.
///
/// Over a pool, the layer counts the requests of the clients. Under a pool, it counts the chunks
/// (large blocks) that the pool allocates.
///
/// Failure   If a request of more than 0 bytes throws or returns null, it is counted as a refusal.
///           A failed `try_allocate_ready` is not counted. Exceptions are rethrown. A free that the
///           upstream refuses is not counted, except that a histogram counts a lifetime for it.
/// Threads   The rules are those of the upstream. With `no_lock`, only one thread may use the
///           layer. A scope counts the calls of all threads.
/// Cost      One short lock per call, at any depth of scopes. If several threads use the layer,
///           each thread has a lock and counters of its own. `push`, `pop` and functions that
///           return counters take the locks of all threads. With `with::histograms`, the free of a
///           block that another thread allocated also takes locks of other threads. `push` may
///           allocate. `pop` is linear in the number of scopes within the one that ends.
///
/// Values and totals are exact, and no peak is too high. Peaks are exact if only one thread
/// allocates and frees. Otherwise the layer adds up the counters of all threads whenever their sum
/// may exceed the peak. After 256 such additions since the last `push` or `pop`, it adds up less
/// often. Each thread may then make the peak of the bytes too low by 1 MiB, or by 1/128 of the peak
/// if that is more. For the peak of the blocks, the limits are 64 blocks and 1/128 of the peak.
template <class Upstream, class Lock = detail::biased_lock,
          class Histograms = detail::no_histograms>
class statistics : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    statistics()
        requires std::default_initializable<Upstream>
        : statistics{Upstream{}} {}
    /// Creates the layer over `upstream`, with all counters at zero.
    explicit statistics(Upstream upstream) : base{std::move(upstream)} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<statistics> Same>
    statistics(Same& other) : statistics{detail::refuse_copy(other)} {}
    template <std::same_as<statistics> Same>
    statistics& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment));
    }

    /// Returns memory that the stream may use without a wait, or null, which is not counted as a
    /// refusal.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        if (p == nullptr) { return p; }
        attempt made{*this, bytes};
        return made.got(p);
    }

    // Subtracts the block from the counters before the upstream frees it. Otherwise another thread
    // could allocate the same memory in between, and a peak would count the memory twice.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept
        requires resource<Upstream>
    {
        counts_.freed(p, bytes);
        bool const freed = detail::was_freed(
            p, [&] { sited{this->upstream_, at}.deallocate(s, p, bytes, alignment); });
        if (!freed) [[unlikely]] { counts_.not_freed(bytes); }
    }
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        counts_.freed(p, bytes);
        bool const freed = detail::was_freed(
            p, [&] { sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment); });
        if (!freed) [[unlikely]] { counts_.not_freed(bytes); }
    }

    /// Begins a scope with counters at zero. Returns its number, for `pop(number)`.
    std::uint64_t push() { return counts_.push(); }
    /// Ends the open scope that began last and returns its counters. A scope must be open.
    counters pop() { return counts_.pop(); }
    /// Ends the open scope for which `push` returned `scope_number`, even if scopes that began
    /// later are still open. Returns its counters.
    counters pop(std::uint64_t scope_number) { return counts_.pop(scope_number); }

    /// Returns the counters of the open scope that began last, or `overall()` if none is open.
    [[nodiscard]] counters now() const { return counts_.now(); }
    /// Returns the counters until now of the open scope for which `push` returned `scope_number`.
    [[nodiscard]] counters now(std::uint64_t scope_number) const {
        return counts_.now(scope_number);
    }
    /// Returns the counters since the layer was created.
    [[nodiscard]] counters overall() const { return counts_.overall(); }

    /// Returns the histograms since the layer was created: the sizes of all allocated blocks, and
    /// the lifetimes of all freed ones.
    [[nodiscard]] Histograms histograms() const
        requires std::same_as<Histograms, vram::histograms>
    {
        return counts_.histograms();
    }

    /// Returns the usage of the upstream, or the counts of this layer if the upstream has no
    /// `usage`.
    [[nodiscard]] memory_usage usage() const {
        if constexpr (measured_resource<Upstream>) {
            return base::usage();
        } else {
            counters const all = overall();
            auto const     live =
                static_cast<std::size_t>(detail::larger_of<std::ptrdiff_t>(all.bytes.value, 0));
            return {.live        = live,
                    .requested   = live,
                    .peak_live   = static_cast<std::size_t>(all.bytes.peak),
                    .allocations = all.blocks.total};
        }
    }

private:
    /// A request in progress. If the request got no block, the destructor counts it as refused. A
    /// request for 0 bytes is never counted as refused.
    class attempt {
    public:
        attempt(statistics& owner, std::size_t bytes) noexcept : owner_{owner}, bytes_{bytes} {}
        attempt(attempt&&) = delete;
        ~attempt() {
            if (bytes_ != 0) { owner_.counts_.refused(); }
        }

        void* got(void* p) noexcept {
            if (p != nullptr) { owner_.counts_.allocated(p, std::exchange(bytes_, 0)); }
            return p;
        }

    private:
        statistics& owner_;
        std::size_t bytes_;
    };

    [[no_unique_address]] detail::scope_counters<counters, Lock, Histograms> counts_;
};

namespace detail {
template <class Upstream>
using statistics_with_histograms = statistics<Upstream, biased_lock, histograms>;
} // namespace detail

namespace with {
/// Puts a `statistics` layer over a resource: `source | with::statistics`.
inline constexpr word<vram::statistics> statistics{};
/// Puts a `statistics` layer with histograms over a resource: `source | with::histograms`.
inline constexpr word<detail::statistics_with_histograms> histograms{};
} // namespace with

} // namespace vram
