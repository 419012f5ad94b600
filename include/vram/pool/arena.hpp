// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena` gives each thread, or each stream, a pool of its own, all over one upstream.

#include <vram/base/call_site.hpp>         // call_site
#include <vram/base/contract.hpp>          // expects
#include <vram/base/error.hpp>             // report_error
#include <vram/base/memory_usage.hpp>      // memory_usage
#include <vram/base/out_of_memory.hpp>     // out_of_memory
#include <vram/base/report_caught.hpp>     // report_caught
#include <vram/base/thread_number.hpp>     // thread_number
#include <vram/concepts/diagnosed.hpp>     // refuse_copy, checked_upstream
#include <vram/concepts/refused_free.hpp>  // refused_free
#include <vram/layer/layer_base.hpp>       // layer_base
#include <vram/layer/with.hpp>             // with::word
#include <vram/pool/arena_options.hpp>     // arena_options
#include <vram/pool/free_pieces.hpp>       // free_pieces
#include <vram/pool/geometric_growth.hpp>  // geometric_growth
#include <vram/pool/pool.hpp>              // pool
#include <vram/pool/private_pool.hpp>      // private_pool
#include <vram/pool/private_pools.hpp>     // private_pools
#include <vram/pool/registered_source.hpp> // registered_source
#include <vram/pool/stream_key.hpp>        // stream_key
#include <vram/pool/stream_seats.hpp>      // stream_seats
#include <vram/source/null_resource.hpp>   // the stand-in of the proofs below

#include <bit>      // bit_ceil
#include <concepts> // default_initializable, assignable_from, copy_constructible
#include <cstddef>  // size_t
#include <new>      // bad_alloc
#include <thread>   // hardware_concurrency
#include <utility>  // move

namespace vram {

/// Private pools over a shared one: threads that allocate at once do not wait for each other. Where
/// there are more of them than `arena_options::count`, some share one.
///
///     arena<pool<stream_ordered<cuda_resource>>> memory; // a thread's chunks come from a pool
///     auto mr = cuda_resource{} | with::stream_ordered | with::arena({.key = arena_key::stream});
///
/// A block is given back to the private pool that it came from, by whichever thread and on
/// whichever stream, and is there for all who are sent to that pool. From afar it is left for that
/// pool to take in, which it does before it grows, before any question is answered, when 256 are
/// left, and when a block comes back that may be among them. The upstream is used by many threads
/// at once.
///
/// Failure   before it says no, a private pool does all that a `pool` does, then all give their
///           idle chunks back, then each is asked for a block; `out_of_memory` has the numbers of
///           all together. Mishaps are reported as by `pool`; those of blocks that are left for
///           another private pool when it takes them in; whose block that is by then keeps it. Of
///           two who give a block back one after the other the first is believed
/// Threads   any, at once; what locks are held over is what `pool` holds its own over
/// Streams   as `pool`; `retire` tells every private pool
/// Cost      as `pool`, and finding the private one: a few loads. While others leave blocks for a
///           private pool, each call there reads a line of the cache that they write to. Giving
///           back what another private pool handed out: the lock of the caller's own, which is
///           looked at first, and once more for the stream, the logarithm of the number of chunks,
///           and a brief lock of that one's; for who has none of its own, the stream's id instead
template <class Upstream, growth Growth = geometric_growth>
class arena : public layer_base<detail::checked_upstream<Upstream>> {
    static_assert(std::copy_constructible<Growth>, "arena: each private pool has the policy");

    using base   = layer_base<Upstream>;
    using source = registered_source<Upstream>;
    using member = private_pool<pool<source, Growth>>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Over an upstream that needs nothing to be made.
    explicit arena(arena_options options = {})
        requires std::default_initializable<Upstream>
        : arena{Upstream{}, options} {}

    /// Takes nothing yet.
    explicit arena(Upstream upstream, arena_options options = {}, Growth growth = {})
        : base{std::move(upstream)},
          chunks_{this->upstream_, options.max_size, options.trim_above},
          options_{options},
          growth_{std::move(growth)} {
        expects(options.count <= most, "arena: there are at most 64 private pools");
        options_.count = std::bit_ceil(options.count != 0 ? options.count : usual_count());
        if (options.key == arena_key::stream) { seats_ = stream_seats{options_.count}; }
    }
    /// A copy is a compile error that says what to write.
    template <std::same_as<arena> Same>
    arena(Same& other) : arena{detail::refuse_copy(other)} {}
    /// While unshared; then the old one can only end or be assigned to.
    arena(arena&& other) noexcept
        : base{std::move(other)},
          chunks_{std::move(other.chunks_)},
          pools_{std::move(other.pools_)},
          seats_{std::move(other.seats_)},
          options_{other.options_},
          growth_{std::move(other.growth_)} {
        settle_in();
    }
    arena& operator=(arena&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        pools_.clear(); // while its upstream is there
        base::operator=(std::move(other));
        chunks_  = std::move(other.chunks_);
        pools_   = std::move(other.pools_);
        seats_   = std::move(other.seats_);
        options_ = other.options_;
        growth_  = std::move(other.growth_);
        settle_in();
        return *this;
    }
    /// Waits for the streams, reports what is still out, and gives every chunk back.
    ~arena() = default;

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        if (member* const mine = pools_.find(place_of(s))) [[likely]] {
            if (void* const p = mine->try_allocate_cached(s, bytes, alignment)) [[likely]] {
                return p;
            }
        }
        return get<true>({&s, bytes, alignment});
    }
    /// Memory that anybody may use at once: where it is still in use, the host waits.
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({nullptr, bytes, alignment});
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return try_get({&s, bytes, alignment});
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return try_get({nullptr, bytes, alignment});
    }

    // Inlined: only the cold path loads the call site.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        if (!put(s, p, bytes, alignment)) [[unlikely]] {
            put_elsewhere_on(s, p, bytes, alignment, at);
        }
    }
    /// The memory is in use by nobody, and the stream that it was taken on has come so far.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        member* const mine = pools_.find(own_place());
        if (mine != nullptr && mine->try_deallocate_sync(p, bytes, alignment)) { return; }
        put_elsewhere(p, {nullptr, bytes, alignment}, mine, at);
    }

    /// Whether `p` lies in a chunk of a private pool, handed out or not.
    [[nodiscard]] bool owns(void const* p) const {
        return chunks_.owner_of(p) != chunk_map::nobody;
    }
    /// The sum over the private pools, without the upstream's own. `peak_reserved` is exact, and
    /// `peak_live` an upper bound, never above it: each private pool counts what is out of it and
    /// has its peak at a time of its own, and a common count would be written to by every thread in
    /// every call. With one private pool it is exact, unless others leave blocks for it: those are
    /// out until it takes them in. Cost: a walk over all blocks.
    [[nodiscard]] memory_usage usage() const {
        memory_usage all;
        for_each([&](member& each) {
            memory_usage const one = each.usage();
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
    /// What is free in the private pools, piece by piece. Cost: a walk over all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        free_pieces all;
        for_each([&](member& each) { all.add(each.free_memory()); });
        return all;
    }
    /// Peaks start again from what is out and held now. Returns those from before. What other
    /// threads do meanwhile may count before and after: both are still upper bounds. Cost: the lock
    /// of each private pool, three times.
    memory_usage reset_peaks() noexcept {
        std::size_t peaks[most]{};
        for (std::size_t i = 0; i < options_.count; ++i) {
            if (member* const each = pools_.find(i)) {
                each->collect();
                peaks[i] = each->reset_peaks().peak_live;
            }
        }
        memory_usage before = chunks_.reset_peaks();
        // Those that started first may have risen before the last did: that was before as well.
        std::size_t sum = 0;
        for (std::size_t i = 0; i < options_.count; ++i) {
            if (member* const each = pools_.find(i)) {
                memory_usage const meanwhile = each->reset_peaks();
                each->raise_peaks(meanwhile);
                sum += peaks[i] > meanwhile.peak_live ? peaks[i] : meanwhile.peak_live;
            }
        }
        if (sum > before.peak_live) { before.peak_live = sum; }
        return bounded(before);
    }
    /// Takes in the peaks of figures from before.
    void raise_peaks(memory_usage const& before) noexcept { chunks_.raise_peaks(before); }

    /// Gives idle chunks back until the private pools hold at most `keep` free bytes, waiting on
    /// the host for streams that may still use them, and trims the upstream. Returns the bytes that
    /// went back to the upstream or, if that is more, that the upstream gave back.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        for_each([&](member& each) {
            back += each.trim(keep);
            if (keep == 0) { return; } // without the walk over all blocks
            memory_usage const now  = each.usage();
            std::size_t const  free = now.reserved - now.live;
            keep -= free < keep ? free : keep;
        });
        if constexpr (trimmable_resource<Upstream>) { // what came from here may be in both
            std::size_t const beneath = this->upstream_.trim(0);
            back                      = beneath > back ? beneath : back;
        }
        return back;
    }
    /// As a `pool`.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t alignment) noexcept {
        return member::rounded_size(bytes, alignment);
    }
    /// The stream is about to be destroyed. Does not wait for it.
    void retire(stream s) {
        for_each([&](member& each) { each.retire(s); });
        if (options_.key == arena_key::stream) { seats_.forget(stream_key<platform>::named(s)); }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// No captured graph that used this arena will run again: what was kept for them is free, for
    /// others once the stream that was captured has come to where it is now.
    void forget_captures() {
        for_each([](member& each) { each.forget_captures(); });
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }
    /// As it was made, with the number of private pools that there may be.
    [[nodiscard]] arena_options const& options() const noexcept { return options_; }

private:
    struct request {
        stream const* on; ///< null: for use at once, by anybody
        std::size_t   bytes;
        std::size_t   alignment;
    };

    static constexpr unsigned most = private_pools<member>::most;

    [[nodiscard]] static unsigned usual_count() noexcept {
        unsigned const together = std::thread::hardware_concurrency();
        return together < most ? together + 1 : most;
    }
    /// What is out lies in what is held, also where others went on while it was counted.
    [[nodiscard]] static memory_usage bounded(memory_usage u) noexcept {
        if (u.live > u.reserved) { u.reserved = u.live; }
        if (u.reserved > u.peak_reserved) { u.peak_reserved = u.reserved; }
        if (u.peak_live > u.peak_reserved) { u.peak_live = u.peak_reserved; }
        return u;
    }
    /// Visits every private pool, with all at home that others gave back to it.
    template <class Visit>
    void for_each(Visit const& visit) const {
        pools_.for_each([&](member& each) {
            each.collect();
            visit(each);
        });
    }
    /// Tells everybody beneath where they are now.
    void settle_in() noexcept {
        chunks_.rebind(this->upstream_);
        pools_.for_each([&](member& each) { each.upstream().rebind(chunks_); });
    }

    /// Which private pool is for the caller.
    [[nodiscard]] std::size_t place_of(stream s) noexcept {
        return options_.key == arena_key::stream ? seat_of(s) : own_place();
    }
    [[nodiscard]] std::size_t own_place() const noexcept {
        return thread_number() & (options_.count - 1);
    }
    [[nodiscard]] std::size_t seat_of(stream s) noexcept {
        try {
            return seats_.of(stream_key<platform>::named(s));
        } catch (...) { return 0; } // a stream that cannot say who it is: any will do
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

    /// A block from one private pool. Null instead of a refusal.
    template <bool Throwing>
    [[nodiscard]] static void* ask(member& from, request const& r) {
        if constexpr (Throwing) { // platform errors are thrown, and not reported
            try {
                return insist(from, r);
            } catch (std::bad_alloc const&) { return nullptr; }
        } else {
            return r.on != nullptr ? from.try_allocate(*r.on, r.bytes, r.alignment)
                                   : from.try_allocate_sync(r.bytes, r.alignment);
        }
    }
    [[nodiscard]] static void* insist(member& from, request const& r) {
        return r.on != nullptr ? from.allocate(*r.on, r.bytes, r.alignment)
                               : from.allocate_sync(r.bytes, r.alignment);
    }
    template <bool Throwing>
    [[nodiscard]] void* get(request const& r) {
        if (r.bytes == 0) { return nullptr; }
        member& mine = pool_for(r.on);
        mine.collect();
        if (void* const p = ask<Throwing>(mine, r)) {
            if (chunks_.crowded()) { tidy(r); }
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
            report_caught({.kind     = error_kind::platform_error,
                           .bytes    = r.bytes,
                           .resource = "arena",
                           .call     = "try_allocate",
                           .advice   = "try_allocate returned null; allocate throws the error."});
        }
        return nullptr;
    }

    /// What is tried when `mine` cannot grow: idle chunks of all go back, and another may have a
    /// block.
    template <bool Throwing>
    [[nodiscard]] [[gnu::noinline]] void* get_elsewhere(member& mine, request const& r) {
        if (r.bytes <= bins::largest && !captured(r)) {
            trim();
            void* p = ask<Throwing>(mine, r);
            pools_.for_each([&](member& each) { // to which all came home for the trim
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
    /// The last attempt: throws what the upstream throws, with the numbers of all private pools.
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
    /// Idle chunks that nobody uses go back. That it fails is no reason to refuse anything.
    [[gnu::noinline]] void tidy(request const& r) noexcept {
        try {
            if (captured(r)) { return; } // now is no time to ask how far streams are
            for_each([](member& each) { each.trim_no_wait(); });
            chunks_.set_crowd();
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .resource = "arena",
                           .call     = "returning idle chunks"});
        }
    }
    [[nodiscard]] static bool captured(request const& r) {
        return r.on != nullptr && platform::capturing(*r.on);
    }

    [[nodiscard]] bool put(stream s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        member* const mine = pools_.find(place_of(s));
        return mine != nullptr && mine->try_deallocate(s, p, bytes, alignment);
    }
    [[gnu::noinline]] void put_elsewhere_on(stream s, void* p, std::size_t bytes,
                                            std::size_t alignment, call_site at) noexcept {
        put_elsewhere(p, {&s, bytes, alignment}, pools_.find(place_of(s)), at);
    }
    /// Gives back what is none of the caller's own private pool, which was `tried`.
    [[gnu::noinline]] void put_elsewhere(void* p, request const& r, member* tried,
                                         call_site at) noexcept {
        if (p == nullptr) { return; }
        unsigned const owner = chunks_.owner_of(p);
        member* const  its   = owner != chunk_map::nobody ? pools_.find(owner) : nullptr;
        if (its == nullptr) {
            refused_free e{"arena", p, r.bytes, r.alignment, at};
            return e.template on<platform>(r.on).template report<platform>();
        }
        if (its == tried) { return its->refuse(p, r.bytes, r.alignment, r.on, at); }
        return its->leave(r.on, p, r.bytes, r.alignment, tried, at);
    }

    chunk_registry<Upstream>     chunks_;
    private_pools<member>        pools_;
    stream_seats                 seats_; ///< where the key is the stream
    arena_options                options_;
    [[no_unique_address]] Growth growth_;
};

namespace with {
/// `source | with::stream_ordered | with::arena`, `... | with::arena({.key = arena_key::stream})`
inline constexpr word<vram::arena, arena_options> arena{};
} // namespace with

static_assert(powers<arena<null_resource<>>>::include<null_resource<>>);
static_assert(resource<arena<null_resource<>>> && retiring_resource<arena<null_resource<>>>);

} // namespace vram
