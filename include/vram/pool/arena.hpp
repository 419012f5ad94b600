// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena` gives each thread, or each stream, its own pool over one shared upstream.

#include <vram/base/call_site.hpp>             // call_site
#include <vram/base/contract.hpp>              // expects
#include <vram/base/core/report_caught.hpp>    // report_caught
#include <vram/base/core/thread_number.hpp>    // thread_number
#include <vram/base/error.hpp>                 // report_error
#include <vram/base/memory_usage.hpp>          // memory_usage
#include <vram/base/out_of_memory.hpp>         // out_of_memory
#include <vram/concepts/core/diagnosed.hpp>    // refuse_copy, checked_upstream
#include <vram/concepts/core/is_captured.hpp>  // is_captured
#include <vram/concepts/core/observation.hpp>  // resource_call
#include <vram/concepts/core/refused_free.hpp> // refused_free
#include <vram/concepts/observer.hpp>          // memory_event_kind
#include <vram/concepts/powers.hpp>  // fallible_resource, trimmable_resource, retiring_resource
#include <vram/layer/layer_base.hpp> // layer_base
#include <vram/layer/with.hpp>       // with::word
#include <vram/order/core/stream_key.hpp>     // stream_key
#include <vram/pool/arena_options.hpp>        // arena_options
#include <vram/pool/core/arena_shard.hpp>     // arena_shard
#include <vram/pool/core/arena_shards.hpp>    // arena_shards
#include <vram/pool/core/shard_source.hpp>    // shard_source
#include <vram/pool/core/stream_affinity.hpp> // stream_affinity
#include <vram/pool/free_pieces.hpp>          // free_pieces
#include <vram/pool/geometric_growth.hpp>     // geometric_growth
#include <vram/pool/pool.hpp>                 // pool

#include <bit>      // bit_ceil
#include <concepts> // default_initializable, assignable_from, copy_constructible
#include <cstddef>  // size_t
#include <new>      // bad_alloc
#include <thread>   // hardware_concurrency
#include <utility>  // move

namespace vram {

/// One `pool` per thread or per stream (a *shard*) over a shared upstream, so that concurrent
/// allocations do not contend for a lock. If there are more threads or streams than
/// `arena_options::count`, some of them share a shard.
///
///     arena<pool<stream_ordered<cuda_resource>>> memory; // chunks of shards come from a pool
///     auto mr = cuda_resource{} | with::stream_ordered | with::arena({.key = arena_key::stream});
///
/// A block returns to the shard that allocated it, whichever thread frees it on whichever stream. A
/// *remote* free, of a block of another shard, is queued for the owning shard. The shard drains its
/// queue before it grows, before it reports usage, and if 256 frees are queued.
///
/// Failure   Before a request is refused, its shard tries all that a `pool` tries. Then all shards
///           return their idle chunks. Then every other shard is asked for a block. `out_of_memory`
///           contains the totals of all shards. Invalid frees are reported as by `pool`; invalid
///           remote frees are reported when they are drained. If two threads free one block, and it
///           is allocated again before the second free is drained, that free takes the block from
///           its new owner. On the simulated device it is reported as a double free instead, and
///           the block stays allocated.
/// Threads   Any number of threads may call concurrently. The upstream is called by several threads
///           at once. A shard's lock is held during the same operations as the lock of a `pool`.
/// Streams   The rules are those of `pool`. `retire` reaches every shard.
/// Cost      A local call costs as much as with `pool`, plus a few loads to find the shard. A
///           remote free takes the lock of the caller's own shard twice (to search it, and to
///           register the stream), a binary search over all chunks, and a short lock of the owner's
///           queue. If the caller has no shard yet, the stream is asked for its id instead.
template <class Upstream, growth Growth = geometric_growth>
class arena : public layer_base<detail::checked_upstream<Upstream>> {
    static_assert(std::copy_constructible<Growth>,
                  "arena: the growth policy must be copyable: each shard has a copy");

    using base   = layer_base<Upstream>;
    using source = detail::shard_source<Upstream>;
    using member = detail::arena_shard<detail::pool_core<source, Growth>>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates an arena over a default-constructed upstream.
    explicit arena(arena_options options = {})
        requires std::default_initializable<Upstream>
        : arena{Upstream{}, options} {}

    /// Creates an arena over `upstream`. Each shard (one of its pools) is created at first use.
    explicit arena(Upstream upstream, arena_options options = {}, Growth growth = {})
        : base{std::move(upstream)},
          chunks_{this->upstream_, options.max_size, options.trim_above},
          options_{options},
          growth_{std::move(growth)} {
        expects(options.count <= most, "arena: `count` must be at most 64");
        options_.count = std::bit_ceil(options.count != 0 ? options.count : usual_count());
        if (options.key == arena_key::stream) {
            affinity_ = detail::stream_affinity{options_.count};
        }
    }
    /// A size alone does not compile: the error message names the options.
    template <detail::size_alone<Upstream> Size>
    explicit arena(Size) : arena{detail::refuse_size(*this)} {}
    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
    template <std::same_as<arena> Same>
    arena(Same& other) : arena{detail::refuse_copy(other)} {}
    template <std::same_as<arena> Same>
    arena& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves an arena that is not shared. The source can then only be destroyed or assigned to.
    arena(arena&& other) noexcept
        : base{std::move(other)},
          chunks_{std::move(other.chunks_)},
          pools_{std::move(other.pools_)},
          affinity_{std::move(other.affinity_)},
          options_{other.options_},
          growth_{std::move(other.growth_)} {
        rebind_shards();
    }
    arena& operator=(arena&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        end(); // destroys the shards (pools) while their upstream still exists
        base::operator=(std::move(other));
        chunks_   = std::move(other.chunks_);
        pools_    = std::move(other.pools_);
        affinity_ = std::move(other.affinity_);
        options_  = other.options_;
        growth_   = std::move(other.growth_);
        rebind_shards();
        return *this;
    }
    /// Waits for the streams, reports live blocks as leaks, and returns all chunks to the upstream.
    ~arena() { end(); }

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that the caller's line, `at`, is loaded only if there is an observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        auto const seen = chunks_.seen();
        return seen.allocate(bytes, &s, at, [&] { return get_on(s, bytes, alignment); });
    }
    /// Allocates memory that any stream may use without a wait. If streams still use the memory,
    /// the host waits for them first.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        auto const seen = chunks_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return get<true>({nullptr, bytes, alignment}); });
    }

    /// Allocates as `allocate` does, but returns null if the request is refused, or if another
    /// error occurs, which is reported. Never throws.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = chunks_.seen();
        return seen.allocate(bytes, &s, at, [&] { return try_get({&s, bytes, alignment}); });
    }
    /// Allocates as `allocate_sync` does, but returns null if the request is refused, or if another
    /// error occurs, which is reported. Never throws.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = chunks_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return try_get({nullptr, bytes, alignment}); });
    }

    /// Frees a block of any shard (pool). Earlier work of the stream `s` may still use the block,
    /// no other stream may. An invalid free is reported with the line `at` and frees nothing.
    // Inlined, so that only the path of an invalid free loads `at`.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        auto const seen = chunks_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!put(s, p, bytes, alignment)) [[unlikely]] {
            put_elsewhere_on(s, p, bytes, alignment, at);
        }
    }
    /// Frees a block that no stream uses any more. The host has waited for the stream on which the
    /// block was allocated.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        auto const seen = chunks_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!put_idle(p, bytes, alignment)) [[unlikely]] {
            put_elsewhere(p, {nullptr, bytes, alignment}, pools_.find(own_place()), at);
        }
    }

    /// Returns true if `p` lies in a chunk of any shard (pool), in a live block or not.
    [[nodiscard]] bool owns(void const* p) const {
        return chunks_.owner_of(p) != detail::chunk_map::nobody;
    }
    /// Returns the sum over all shards (pools of this arena), without the usage of the upstream.
    /// Queued frees by threads of other shards are executed first. `peak_reserved` is exact.
    /// `peak_live` is an upper bound: each shard reaches its own peak at its own time, and an exact
    /// common count would be written by every thread in every call. With one shard `peak_live` is
    /// exact, unless other threads queue frees for the shard; a queued block is live until the
    /// queue is drained. Cost: a walk over all blocks.
    [[nodiscard]] memory_usage usage() const {
        resource_call const own;
        memory_usage        all;
        for_each([&](member& each) {
            memory_usage const one = each.core().usage();
            all.live += one.live;
            all.requested += one.requested;
            all.peak_live += one.peak_live;
            all.past_peak += one.highest_live();
            all.pending += one.pending;
            all.allocations += one.allocations;
            all.events += one.events;
            all.waits += one.waits;
            all.upstream += one.upstream;
            all.restarts += one.restarts;
            if (one.largest_free > all.largest_free) { all.largest_free = one.largest_free; }
        });
        chunks_.report_to(all);
        return bounded(all);
    }
    /// Returns the sizes of the free pieces of all shards (pools). Cost: a walk over all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        resource_call const own;
        free_pieces         all;
        for_each([&](member& each) { all.add(each.core().free_memory()); });
        return all;
    }
    /// Restarts the peaks from the bytes that are live and reserved now, and returns the peaks
    /// until now. Allocations that other threads make during the call may count towards both
    /// periods; both results are still upper bounds. Cost: the lock of each shard (pool of this
    /// arena), three times.
    memory_usage reset_peaks() noexcept {
        resource_call const own;
        std::size_t         peaks[most]{};
        for (std::size_t i = 0; i < options_.count; ++i) {
            if (member* const each = pools_.find(i)) {
                each->drain_remote_frees();
                peaks[i] = each->core().reset_peaks().peak_live;
            }
        }
        memory_usage before = chunks_.reset_peaks();
        // The live bytes of shards (pools) with peaks that restarted early may have risen before
        // the last shard restarted.
        std::size_t sum = 0;
        for (std::size_t i = 0; i < options_.count; ++i) {
            if (member* const each = pools_.find(i)) {
                memory_usage const meanwhile = each->core().reset_peaks();
                each->core().raise_peaks(meanwhile);
                sum += peaks[i] > meanwhile.peak_live ? peaks[i] : meanwhile.peak_live;
            }
        }
        if (sum > before.peak_live) { before.peak_live = sum; }
        return bounded(before);
    }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept { chunks_.raise_peaks(before); }

    /// Returns idle chunks (without a live block) to the upstream until all shards (pools of this
    /// arena) together reserve at most `keep` free bytes, then trims the upstream. The host waits
    /// for streams that may still use the chunks. Returns the bytes returned to the upstream, or by
    /// the upstream, whichever are more.
    std::size_t trim(std::size_t keep = 0) {
        resource_call const own;
        std::size_t         back = 0;
        for_each([&](member& each) {
            back += each.core().trim(keep);
            if (keep == 0) { return; } // saves `usage()`, a walk over all blocks
            memory_usage const now  = each.core().usage();
            std::size_t const  free = now.reserved - now.live;
            keep -= free < keep ? free : keep;
        });
        // Bytes of a chunk that was returned above may be included in both numbers.
        if constexpr (trimmable_resource<Upstream>) {
            std::size_t const beneath = this->upstream_.trim(0);
            back                      = beneath > back ? beneath : back;
        }
        return back;
    }
    /// Returns the size of the block for a request of `bytes` bytes: rounded up as by a `pool`.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return pool<Upstream, Growth>::rounded_size(bytes, alignment);
    }
    /// Announces that the stream `s` is about to be destroyed. Does not wait for the stream.
    void retire(stream s) {
        resource_call const own;
        for_each([&](member& each) { each.core().retire(s); });
        if (options_.key == arena_key::stream) {
            affinity_.forget(detail::stream_key<platform>::named(s));
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// States that no captured graph that used this arena will run again. The graph-retained memory
    /// (kept for these graphs) becomes free. Another stream may use it after the work that the
    /// captured stream has at the time of this call.
    void forget_captures() {
        resource_call const own;
        for_each([](member& each) { each.core().forget_captures(); });
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }
    /// Returns the options of the constructor, with the actual number of shards (pools) in `count`.
    [[nodiscard]] arena_options const& options() const noexcept { return options_; }

private:
    using resource_call = detail::resource_call<platform>;

    struct request {
        stream const* on; ///< null: any stream must be able to use the memory without a wait
        std::size_t   bytes;
        std::size_t   alignment;
    };

    static constexpr unsigned most = detail::arena_shards<member>::most;

    [[nodiscard]] static unsigned usual_count() noexcept {
        unsigned const together = std::thread::hardware_concurrency();
        return together < most ? together + 1 : most;
    }
    /// Raises the reserved bytes and peaks if necessary, so that live <= reserved <= peak even if
    /// other threads allocated while the figures of the shards (pools) were added.
    [[nodiscard]] static memory_usage bounded(memory_usage u) noexcept {
        if (u.live > u.reserved) { u.reserved = u.live; }
        if (u.reserved > u.peak_reserved) { u.peak_reserved = u.reserved; }
        if (u.peak_live > u.peak_reserved) { u.peak_live = u.peak_reserved; }
        return u;
    }
    /// Calls `visit(shard)` for every shard (pool), after executing the frees that threads of other
    /// shards have queued for it.
    template <class Visit>
    void for_each(Visit const& visit) const {
        pools_.for_each([&](member& each) {
            each.drain_remote_frees();
            visit(each);
        });
    }
    void end() noexcept {
        resource_call const own;
        pools_.clear();
    }
    /// Updates the pointers to the upstream and to the chunk directory after the arena was moved.
    void rebind_shards() noexcept {
        chunks_.rebind(this->upstream_);
        pools_.for_each([&](member& each) { each.core().upstream().rebind(chunks_); });
    }

    /// Returns the index of the shard (pool of this arena) for a call on stream `s`.
    [[nodiscard]] std::size_t place_of(stream s) noexcept {
        return options_.key == arena_key::stream ? seat_of(s) : own_place();
    }
    [[nodiscard]] std::size_t own_place() const noexcept {
        return detail::thread_number() & (options_.count - 1);
    }
    [[nodiscard]] std::size_t seat_of(stream s) noexcept {
        try {
            return affinity_.of(detail::stream_key<platform>::named(s));
            // If the stream's id cannot be queried (in a capture), any shard (pool) will do.
        } catch (...) { return 0; }
    }
    [[nodiscard]] member& pool_for(stream const* on) {
        std::size_t const place = on != nullptr ? place_of(*on) : own_place();
        member* const     found = pools_.find(place);
        return found != nullptr ? *found : make_pool(place);
    }
    [[gnu::noinline]] member& make_pool(std::size_t place) {
        pool_options const options{.events = options_.events, .graphs = options_.graphs};
        return pools_.make(place, source{chunks_, static_cast<unsigned>(place)}, options, growth_);
    }

    /// Allocates a block from the shard `from`, a pool. Returns null if it refuses. Other errors
    /// are rethrown if `Throwing`, else reported to the error sink.
    template <bool Throwing>
    [[nodiscard]] static void* ask(member& from, request const& r) {
        if constexpr (Throwing) { // try_allocate would report platform errors, not throw them
            try {
                return insist(from, r);
            } catch (std::bad_alloc const&) { return nullptr; }
        } else {
            return from.checked(r.on != nullptr
                                    ? from.core().try_allocate(*r.on, r.bytes, r.alignment)
                                    : from.core().try_allocate_sync(r.bytes, r.alignment));
        }
    }
    [[nodiscard]] void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        if (member* const mine = pools_.find(place_of(s))) [[likely]] {
            if (void* const p = mine->core().try_allocate_cached(s, bytes, alignment)) [[likely]] {
                return mine->checked(p);
            }
        }
        return get<true>({&s, bytes, alignment});
    }
    [[nodiscard]] static void* insist(member& from, request const& r) {
        return from.checked(r.on != nullptr ? from.core().allocate(*r.on, r.bytes, r.alignment)
                                            : from.core().allocate_sync(r.bytes, r.alignment));
    }
    template <bool Throwing>
    [[nodiscard]] void* get(request const& r) {
        if (r.bytes == 0) { return nullptr; }
        member& mine = pool_for(r.on);
        mine.drain_remote_frees();
        if (void* const p = ask<Throwing>(mine, r)) {
            if (chunks_.above_watermark()) { return_idle_chunks(r); }
            return p;
        }
        return get_elsewhere<Throwing>(mine, r);
    }
    [[nodiscard]] void* try_get(request const& r) noexcept
        requires fallible_resource<Upstream>
    {
        try {
            return get<false>(r);
        } catch (std::bad_alloc const&) {
        } catch (...) {
            detail::report_caught(
                error{.kind     = error_kind::platform_error,
                      .bytes    = r.bytes,
                      .resource = "arena",
                      .call     = "try_allocate",
                      .advice   = "try_allocate returned null; allocate throws the error."});
        }
        return nullptr;
    }

    /// Slow path if the calling thread's shard `mine` (a pool) cannot grow: all shards return their
    /// idle chunks, then every shard is asked for a block.
    template <bool Throwing>
    [[nodiscard]] [[gnu::noinline]] void* get_elsewhere(member& mine, request const& r) {
        if (r.bytes <= detail::bins::largest && !captured(r)) {
            trim();
            void* p = ask<Throwing>(mine, r);
            // Trimming has already executed the frees that were queued for every shard (pool).
            pools_.for_each([&](member& each) {
                if (p == nullptr && &each != &mine) { p = ask<Throwing>(each, r); }
            });
            if (p != nullptr) { return p; }
        }
        if constexpr (Throwing) {
            return must_get(mine, r);
        } else {
            return nullptr;
        }
    }
    /// The last attempt: allocates from the shard `mine` (a pool). If the request is refused,
    /// rethrows the exception with the totals of all shards.
    [[nodiscard]] void* must_get(member& mine, request const& r) {
        try {
            return insist(mine, r);
        } catch (out_of_memory& refused) {
            memory_usage const now         = usage();
            refused.numbers().live         = now.live;
            refused.numbers().reserved     = now.reserved;
            refused.numbers().largest_free = now.largest_free;
            throw;
        }
    }
    /// Returns idle chunks (without a live block) that no stream uses any more to the upstream,
    /// from all shards (pools). An error is reported and does not refuse the allocation.
    [[gnu::noinline]] void return_idle_chunks(request const& r) noexcept {
        try {
            if (captured(r)) { return; } // streams cannot be queried during a capture
            for_each([](member& each) { each.core().trim_no_wait(); });
            chunks_.reset_watermark();
        } catch (...) {
            detail::report_caught(error{.kind     = error_kind::platform_error,
                                        .resource = "arena",
                                        .call     = "returning idle chunks"});
        }
    }
    [[nodiscard]] static bool captured(request const& r) {
        return detail::is_captured<platform>(r.on);
    }

    [[nodiscard]] bool put(stream s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        member* const mine = pools_.find(place_of(s));
        return mine != nullptr && mine->core().try_deallocate(s, p, bytes, alignment);
    }
    [[nodiscard]] bool put_idle(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        member* const mine = pools_.find(own_place());
        return mine != nullptr && mine->core().try_deallocate_sync(p, bytes, alignment);
    }
    [[gnu::noinline]] void put_elsewhere_on(stream s, void* p, std::size_t bytes,
                                            std::size_t alignment, call_site at) noexcept {
        put_elsewhere(p, {&s, bytes, alignment}, pools_.find(place_of(s)), at);
    }
    /// Slow path of a free: frees a block that `tried`, the shard (pool) of the calling thread or
    /// null, does not own.
    [[gnu::noinline]] void put_elsewhere(void* p, request const& r, member* tried,
                                         call_site at) noexcept {
        if (p == nullptr) { return; }
        unsigned const owner = chunks_.owner_of(p);
        member* const  its   = owner != detail::chunk_map::nobody ? pools_.find(owner) : nullptr;
        if (its == nullptr) {
            detail::refused_free e{"arena", p, r.bytes, r.alignment, at};
            e.template on<platform>(r.on).template report<platform>();
            return chunks_.seen().notify(memory_event_kind::free_refused, p, r.bytes, r.on, at);
        }
        if (its == tried) { return its->core().refuse(p, r.bytes, r.alignment, r.on, at); }
        return its->free_remotely(r.on, p, r.bytes, r.alignment, tried, at);
    }

    detail::chunk_directory<Upstream> chunks_;
    detail::arena_shards<member>      pools_;
    /// The shard (pool) of each stream, if the option `key` is `arena_key::stream`.
    detail::stream_affinity      affinity_;
    arena_options                options_;
    [[no_unique_address]] Growth growth_;
};

namespace with {
/// Puts an arena over the resource before it: `source | with::stream_ordered | with::arena`, or
/// with options `... | with::arena({.key = arena_key::stream})`.
inline constexpr word<vram::arena, arena_options> arena{};
} // namespace with

} // namespace vram
