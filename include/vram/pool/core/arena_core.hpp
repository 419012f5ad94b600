// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_core` passes the calls of an arena to its shards.

#include <vram/base/call_site.hpp>
#include <vram/base/core/null_if_thrown.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/observation.hpp> // resource_call
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/concepts/powers.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/pool/arena_options.hpp>
#include <vram/pool/core/arena_shard.hpp>
#include <vram/pool/core/arena_shards.hpp>
#include <vram/pool/core/block_request.hpp>
#include <vram/pool/core/chunk_directory.hpp>
#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/core/shard_selector.hpp>
#include <vram/pool/core/shard_source.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // assignable_from, copy_constructible
#include <cstddef>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// Base class of `arena`. Serves a call from the shard (pool of the arena) for its thread or
/// stream. If that cannot allocate, or does not own a freed block, another shard may serve the
/// call.
template <synchronous_resource Upstream, growth Growth>
class arena_core : public layer_base<Upstream> {
    static_assert(std::copy_constructible<Growth>,
                  "arena: the growth policy must be copyable: each shard has a copy");

    using base   = layer_base<Upstream>;
    using source = shard_source<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

protected:
    using member  = arena_shard<pool_core<source, Growth>>;
    using request = block_request<stream>;

    static constexpr std::size_t most = arena_shards<member>::most;
    static_assert(shard_selector<platform>::most <= most);

    arena_core(Upstream upstream, arena_options const& options, Growth growth)
        : base{std::move(upstream)},
          chunks_{this->upstream_, options.max_size, options.trim_above},
          selector_{options.key, options.count},
          options_{options},
          growth_{std::move(growth)} {
        options_.count = selector_.count();
    }
    arena_core(arena_core&& other) noexcept
        : base{std::move(other)},
          chunks_{std::move(other.chunks_)},
          pools_{std::move(other.pools_)},
          selector_{std::move(other.selector_)},
          options_{other.options_},
          growth_{std::move(other.growth_)} {
        rebind_shards();
    }
    arena_core& operator=(arena_core&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        end(); // the shards (pools) return their chunks to the old upstream
        base::operator=(std::move(other));
        chunks_   = std::move(other.chunks_);
        pools_    = std::move(other.pools_);
        selector_ = std::move(other.selector_);
        options_  = other.options_;
        growth_   = std::move(other.growth_);
        rebind_shards();
        return *this;
    }
    ~arena_core() { end(); }

    /// Allocates a block, if possible a cached one of the shard (pool of the arena) for this thread
    /// or stream. Throws on failure; null for 0 bytes.
    [[nodiscard]] void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        if (member* const mine = pools_.find(selector_.of(s))) [[likely]] {
            if (void* const p = mine->core().try_allocate_cached(s, bytes, alignment)) [[likely]] {
                return mine->checked(p);
            }
        }
        return get<true>({.asked = bytes, .alignment = alignment, .on = &s});
    }
    template <bool Throwing>
    [[nodiscard]] void* get(request const& r) {
        if (r.asked == 0) { return nullptr; }
        member& mine = shard_for(r.on);
        mine.drain_remote_frees();
        if (void* const p = ask<Throwing>(mine, r)) {
            if (chunks_.above_watermark()) { return_idle_chunks(r); }
            return p;
        }
        return get_elsewhere<Throwing>(mine, r);
    }
    [[nodiscard]] void* try_get(request const& r) noexcept {
        return null_if_thrown("arena", r.asked, [&] { return get<false>(r); });
    }

    /// Frees a block of the shard (pool of the arena) for this thread and stream. Returns false if
    /// the shard has no such block.
    [[nodiscard]] bool put(stream s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        member* const mine = pools_.find(selector_.of(s));
        return mine != nullptr && mine->core().try_deallocate(s, p, bytes, alignment);
    }
    [[nodiscard]] bool put_idle(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        member* const mine = pools_.find(selector_.of_thread());
        return mine != nullptr && mine->core().try_deallocate_sync(p, bytes, alignment);
    }
    [[gnu::noinline]] void put_elsewhere_on(stream s, void* p, std::size_t bytes,
                                            std::size_t alignment, call_site at) noexcept {
        put_elsewhere(p, {.asked = bytes, .alignment = alignment, .on = &s}, at);
    }
    /// Called if the shard (pool) of this thread or stream could not free `p`. Passes the free to
    /// the shard that owns `p`, or reports the free if it is invalid.
    [[gnu::noinline]] void put_elsewhere(void* p, request const& r, call_site at) noexcept {
        if (p == nullptr) { return; }
        member* const  tried = pools_.find(selector_.of(r.on));
        unsigned const owner = chunks_.owner_of(p);
        member* const  its   = owner != chunk_map::nobody ? pools_.find(owner) : nullptr;
        if (its == nullptr) {
            refused_free e{"arena", p, r.asked, r.alignment, at};
            e.template on<platform>(r.on).template report<platform>();
            return chunks_.seen().notify(memory_event_kind::free_refused, p, r.asked, r.on, at);
        }
        // Also if `its` is `tried`: the stream may have had another shard when `put` was called.
        if (its == tried) { return its->free_now(r.on, p, r.asked, r.alignment, at); }
        return its->free_remotely(r.on, p, r.asked, r.alignment, tried, at);
    }

    /// Calls `visit` with the `pool_core` of every shard, after the queued frees of the shard were
    /// executed.
    template <class Visit>
    void for_each(Visit const& visit) const {
        pools_.for_each([&](member& each) {
            each.drain_remote_frees();
            visit(each.core());
        });
    }
    /// Returns chunks without a live block to the upstream while more than `keep` bytes of the
    /// arena's memory are free. Then trims the upstream. Returns the number of bytes given back.
    std::size_t trim_all(std::size_t keep) {
        resource_call<platform> const own;
        std::size_t                   back = 0;
        for_each([&](auto& core) {
            back += core.trim(keep);
            if (keep == 0) { return; }
            memory_usage const now  = core.usage();
            std::size_t const  free = now.reserved - now.live;
            keep -= free < keep ? free : keep;
        });
        // `beneath` may include bytes that the shards have just returned to the upstream. A sum
        // would count these bytes twice.
        if constexpr (trimmable_resource<Upstream>) {
            std::size_t const beneath = this->upstream_.trim(0);
            back                      = beneath > back ? beneath : back;
        }
        return back;
    }

    /// Returns the usage of the arena: the sum of the figures of all shards (its pools). The
    /// reserved bytes and their peak are not sums: they are counted for the whole arena.
    [[nodiscard]] memory_usage totals() const {
        resource_call<platform> const own;
        memory_usage                  all;
        for_each([&](auto& core) { all.add(core.usage()); });
        chunks_.report_to(all);
        return bounded(all);
    }
    /// Makes the figures consistent: live <= reserved <= peak of reserved. The shards (pools) are
    /// read one after the other, and other threads may allocate in between.
    [[nodiscard]] static memory_usage bounded(memory_usage u) noexcept {
        if (u.live > u.reserved) { u.reserved = u.live; }
        if (u.reserved > u.peak_reserved) { u.peak_reserved = u.reserved; }
        if (u.peak_live > u.peak_reserved) { u.peak_live = u.peak_reserved; }
        return u;
    }

    chunk_directory<Upstream>    chunks_;
    arena_shards<member>         pools_;
    shard_selector<platform>     selector_;
    arena_options                options_;
    [[no_unique_address]] Growth growth_;

private:
    void end() noexcept {
        resource_call<platform> const own;
        pools_.clear();
    }
    /// Called after a move of the arena. Gives `chunks_` the new address of the upstream, and each
    /// shard (pool) the new address of `chunks_`.
    void rebind_shards() noexcept {
        chunks_.rebind(this->upstream_);
        pools_.for_each([&](member& each) { each.core().upstream().rebind(chunks_); });
    }

    [[nodiscard]] member& shard_for(stream const* on) {
        std::size_t const place = selector_.of(on);
        member* const     found = pools_.find(place);
        return found != nullptr ? *found : make_shard(place);
    }
    [[gnu::noinline]] member& make_shard(std::size_t place) {
        pool_options const options{.events = options_.events, .graphs = options_.graphs};
        return pools_.make(place, source{chunks_, static_cast<unsigned>(place)}, options, growth_);
    }

    /// Allocates a block from the shard (pool) `from`. Returns null if the shard is out of memory.
    /// If `Throwing` is true, throws other errors. If it is false, reports them to the error sink
    /// (the function for errors that cannot be thrown) and returns null.
    template <bool Throwing>
    [[nodiscard]] static void* ask(member& from, request const& r) {
        // Calls the functions that throw. `try_allocate` would not throw errors of the platform: it
        // would report them and return null.
        if constexpr (Throwing) {
            try {
                return insist(from, r);
            } catch (std::bad_alloc const&) { return nullptr; }
        } else {
            return from.checked(r.on != nullptr
                                    ? from.core().try_allocate(*r.on, r.asked, r.alignment)
                                    : from.core().try_allocate_sync(r.asked, r.alignment));
        }
    }
    [[nodiscard]] static void* insist(member& from, request const& r) {
        return from.checked(r.on != nullptr ? from.core().allocate(*r.on, r.asked, r.alignment)
                                            : from.core().allocate_sync(r.asked, r.alignment));
    }
    /// Called if the shard (pool) `mine` has no memory for the request. Trims all shards, then
    /// tries to allocate from each. Omits this if the request's stream is being captured, or if no
    /// pool can serve the size. On failure, throws if `Throwing` is true, and otherwise returns
    /// null.
    template <bool Throwing>
    [[nodiscard]] [[gnu::noinline]] void* get_elsewhere(member& mine, request const& r) {
        if (r.possible() && !is_captured<platform>(r.on)) {
            trim_all(0);
            void* p = ask<Throwing>(mine, r);
            // No shard has queued frees to execute first: `trim_all` has just executed them.
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
    /// Last attempt: allocates from the shard (pool) `mine`, and rethrows its exception. An
    /// `out_of_memory` gets the live and reserved bytes of all shards.
    [[nodiscard]] void* must_get(member& mine, request const& r) {
        try {
            return insist(mine, r);
        } catch (out_of_memory& refused) {
            memory_usage const all         = totals();
            refused.numbers().live         = all.live;
            refused.numbers().reserved     = all.reserved;
            refused.numbers().largest_free = all.largest_free;
            throw;
        }
    }
    /// Returns unused chunks to the upstream if no stream may still access them. Does nothing if
    /// the request's stream is being captured. Reports errors instead of throwing them.
    [[gnu::noinline]] void return_idle_chunks(request const& r) noexcept {
        try {
            // The search for unused chunks queries streams, which CUDA forbids during a capture.
            if (is_captured<platform>(r.on)) { return; }
            for_each([](auto& core) { core.trim_no_wait(); });
            chunks_.reset_watermark();
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .resource = "arena",
                           .call     = "returning idle chunks"});
        }
    }
};

} // namespace detail
} // namespace vram
