// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena` gives each thread, or each stream, its own pool over one shared upstream.

#include <vram/base/call_site.hpp>
#include <vram/base/core/first_exception.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/diagnosed.hpp>   // refuse_copy, checked_upstream
#include <vram/concepts/core/observation.hpp> // resource_call
#include <vram/concepts/observer.hpp>         // memory_event_kind
#include <vram/concepts/powers.hpp>           // fallible_resource, retiring_resource
#include <vram/layer/with.hpp>                // with::word
#include <vram/pool/arena_options.hpp>
#include <vram/pool/core/arena_core.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/pool/pool.hpp>

#include <concepts> // default_initializable, assignable_from
#include <cstddef>
#include <utility>

namespace vram {

/// One `pool` per thread or per stream (a *shard*) over a shared upstream, so that concurrent
/// allocations rarely contend for a lock.
///
///     arena<pool<stream_ordered<cuda_resource>>> memory; // chunks of shards come from a pool
///     auto mr = cuda_resource{} | with::stream_ordered | with::arena({.key = arena_key::stream});
///
/// A block always returns to the shard that allocated it. A free by a thread or stream of another
/// shard may be queued. The queued free takes effect before the owning shard allocates another
/// chunk.
///
/// Failure   A request fails only after every shard has tried to serve it. If its stream is being
///           captured, or if no pool can serve its size, only one shard tries. Invalid frees are
///           reported to the error sink (the function for errors that cannot be thrown). If two
///           threads free the same block, the second free may not be detected.
/// Threads   Any number of threads may call concurrently. The upstream is called by several threads
///           at once.
/// Streams   The rules are those of `pool`.
/// Cost      A call takes slightly longer than with `pool`. A free of another shard's block
///           acquires several locks.
template <class Upstream, growth Growth = geometric_growth>
class arena : public detail::arena_core<detail::checked_upstream<Upstream>, Growth> {
    using base = detail::arena_core<Upstream, Growth>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates an arena over a default-constructed upstream.
    explicit arena(arena_options options = {})
        requires std::default_initializable<Upstream>
        : arena{Upstream{}, options} {}

    /// Creates an arena over `upstream`. Each shard (one of its pools) is created at first use.
    explicit arena(Upstream upstream, arena_options options = {}, Growth growth = {})
        : base{std::move(upstream), options, std::move(growth)} {}
    /// A size as the only argument does not compile: the error message says which option to write.
    template <detail::size_alone<Upstream> Size>
    explicit arena(Size) : arena{detail::refuse_size(*this)} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<arena> Same>
    arena(Same& other) : arena{detail::refuse_copy(other)} {}
    template <std::same_as<arena> Same>
    arena& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Requires that no other thread and no `resource_ref` uses the source of the move. Afterwards,
    /// the source can only be destroyed or assigned to.
    arena(arena&&) = default;
    arena& operator=(arena&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    = default;
    /// Waits for the streams that may still use the memory, reports live blocks as leaks, and
    /// returns all chunks to the upstream.
    ~arena() = default;

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Only an observer (an object that is notified of each allocation) uses `at`. The function is
    // inlined so that other calls need not pass it.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        auto const seen = this->chunks_.seen();
        return seen.allocate(bytes, &s, at, [&] { return this->get_on(s, bytes, alignment); });
    }
    /// Allocates a block that any stream may use without a wait; returns null for 0 bytes. The host
    /// may wait for earlier users.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        auto const seen = this->chunks_.seen();
        return seen.allocate(bytes, nullptr, at, [&] {
            return this->template get<true>({.asked = bytes, .alignment = alignment});
        });
    }

    /// Allocates like `allocate`, but returns null instead of throwing. Errors other than
    /// `std::bad_alloc` go to the error sink (the function for errors that cannot be thrown).
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->chunks_.seen();
        return seen.allocate(bytes, &s, at, [&] {
            return this->try_get({.asked = bytes, .alignment = alignment, .on = &s});
        });
    }
    /// Allocates like `allocate_sync`, but returns null instead of throwing. Errors other than
    /// `std::bad_alloc` go to the error sink (the function for errors that cannot be thrown).
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->chunks_.seen();
        return seen.allocate(bytes, nullptr, at, [&] {
            return this->try_get({.asked = bytes, .alignment = alignment});
        });
    }

    /// Frees a block in the order of the stream `s`: earlier work of `s` may still use the block.
    /// If the free is invalid, the report names `at`, the caller's file and line.
    // Inlined, so that a free passes `at` only if it is needed: for an observer (an object that is
    // notified of each free), or if the shard of this thread or stream rejects the block.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        auto const seen = this->chunks_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!this->put(s, p, bytes, alignment)) [[unlikely]] {
            this->put_elsewhere_on(s, p, bytes, alignment, at);
        }
    }
    /// Frees a block that no stream uses any more: the program has waited for all of its uses.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        auto const seen = this->chunks_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!this->put_idle(p, bytes, alignment)) [[unlikely]] {
            this->put_elsewhere(p, {.asked = bytes, .alignment = alignment}, at);
        }
    }

    /// Returns true if `p` lies in a chunk of any shard (pool), in a live block or not.
    [[nodiscard]] bool owns(void const* p) const {
        return this->chunks_.owner_of(p) != detail::chunk_map::nobody;
    }
    /// Returns the usage of all shards (pools of this arena) together, without memory that the
    /// upstream holds for itself. `peak_live` is an upper bound: a sum of peaks at different times.
    /// Cost: a walk over all blocks.
    [[nodiscard]] memory_usage usage() const { return this->totals(); }
    /// Returns the number and the sizes of the free pieces of all shards (pools). Cost: a walk over
    /// all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        resource_call const own;
        free_pieces         all;
        this->for_each([&](auto& core) { all.add(core.free_memory()); });
        return all;
    }
    /// Sets the peaks of the live and of the reserved bytes to the present numbers. Returns the
    /// previous peaks. The returned `peak_live` may be too high: it adds up the peaks of the shards
    /// (pools), which may have had them at different times.
    memory_usage reset_peaks() noexcept {
        resource_call const own;
        std::size_t         peaks[base::most]{};
        for (std::size_t i = 0; i < base::most; ++i) {
            if (auto* const each = this->pools_.find(i)) {
                each->drain_remote_frees();
                peaks[i] = each->core().reset_peaks().peak_live;
            }
        }
        memory_usage before = this->chunks_.reset_peaks();
        // Adds up the live peaks of the shards. If a shard has reached a higher peak since its
        // reset above, the higher peak counts.
        std::size_t sum = 0;
        for (std::size_t i = 0; i < base::most; ++i) {
            if (auto* const each = this->pools_.find(i)) {
                memory_usage const meanwhile = each->core().reset_peaks();
                each->core().raise_peaks(meanwhile);
                sum += peaks[i] > meanwhile.peak_live ? peaks[i] : meanwhile.peak_live;
            }
        }
        if (sum > before.peak_live) { before.peak_live = sum; }
        return base::bounded(before);
    }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept { this->chunks_.raise_peaks(before); }

    /// Gives idle chunks (without a live block) back to the upstream while more than `keep` bytes
    /// of the arena's memory are free. Then trims the upstream. The host may wait for streams.
    /// Returns the number of bytes given back.
    std::size_t trim(std::size_t keep = 0) { return this->trim_all(keep); }
    /// Returns the bytes that a block takes for a request of `bytes`: rounded up to a multiple of
    /// 256.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return pool<Upstream, Growth>::rounded_size(bytes, alignment);
    }
    /// Prepares the arena for the destruction of the stream `s`: other streams can then still wait
    /// for the frees on `s`. With `event_policy::lazy`, the program must call this function before
    /// it destroys a raw `cudaStream_t`. The host may wait.
    void retire(stream s) {
        resource_call const     own;
        detail::first_exception failed;
        this->for_each([&](auto& core) { failed.of([&] { core.retire(s); }); });
        failed.of([&] { this->selector_.forget(s); });
        if constexpr (retiring_resource<Upstream>) {
            failed.of([&] { this->upstream_.retire(s); });
        }
        failed.rethrow();
    }
    /// Frees the memory that the arena keeps for captured graphs. If there may be such memory, the
    /// host first waits for the devices of all streams that used this arena. The program must not
    /// launch these graphs again, and no running capture may use this arena.
    ///
    /// Failure   If a wait of a shard (pool) fails, its memory stays kept. Throws the first error.
    /// Streams   Launches of these graphs on any other device must be complete before the call.
    void forget_captures() {
        resource_call const     own;
        detail::first_exception failed;
        this->for_each([&](auto& core) { failed.of([&] { core.forget_captures(); }); });
        if constexpr (forgetting_resource<Upstream>) {
            failed.of([&] { this->upstream_.forget_captures(); });
        }
        failed.rethrow();
    }
    /// Returns the options of the constructor; `count` is the largest number of shards (pools), a
    /// power of two. Each is created at first use.
    [[nodiscard]] arena_options const& options() const noexcept { return this->options_; }

private:
    using resource_call = detail::resource_call<platform>;
    using typename base::request;
};

namespace with {
/// Puts an arena over the resource on the left of `|`. Options may follow in parentheses:
/// `source | with::stream_ordered | with::arena({.key = arena_key::stream})`.
inline constexpr word<vram::arena, arena_options> arena{};
} // namespace with

} // namespace vram
