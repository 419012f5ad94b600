// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_core` is the allocator inside `pool` and inside each shard of an `arena`.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/error.hpp>    // error, report_error
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/is_destroyed.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/growth.hpp>
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/growing_base.hpp>
#include <vram/pool/core/pool_growth.hpp>
#include <vram/pool/core/quick_lists.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // assignable_from
#include <cstddef>  // size_t
#include <utility>  // move, exchange

namespace vram {
namespace detail {

/// An upstream that notifies the observers in the name of the object that owns the pool.
template <class R>
concept observed_by_owner = requires(R const& r) { r.seen(); };

/// A heap of blocks in chunks from the upstream, with the lock, the limit and the growth of a pool.
/// The functions for users are documented in `pool`. The rest is used by the shards of an `arena`
/// and by the model of `chunk_growth`, which gets the core as an argument.
///
/// Failure   The functions fail as those of `pool`.
/// Threads   Any number of threads may call concurrently. Functions with a `guard` parameter are
///           called with the lock held.
/// Streams   The rules are those of `pool`.
/// Cost      The cost is that of `pool`.
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
    using base::order_of;
    using base::room;

    explicit pool_core(Upstream upstream, pool_options const& options = {}, Growth policy = {})
        : base{std::move(upstream), options.max_size},
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

    /// Returns the object that notifies the observers of events in this pool.
    [[nodiscard, gnu::always_inline]] auto seen() noexcept {
        if constexpr (observed_by_owner<Upstream>) {
            return this->upstream_.seen(); // a shard of an arena notifies in the name of the arena
        } else {
            return base::seen_as(own_name);
        }
    }

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
    /// Allocates a cached block (freed by this stream and kept for its next request), or a free
    /// block that is found without a search and needs no wait. Returns null if there is neither.
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

    /// Frees a block as `deallocate` does. If no block with this size and alignment is live at `p`,
    /// reports nothing and returns false.
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
    /// Frees the blocks for which `blocks.drain(take)` calls `take(free)`, with the pool's lock
    /// taken once. Reports an invalid free.
    template <class Blocks>
    void drain(Blocks& blocks) noexcept {
        auto const held = lock_.hold();
        blocks.drain([&](auto const& n) {
            block* const  b  = heap_.live(n.p, n.bytes);
            stream const* on = n.in_use ? &n.on : nullptr;
            if (b != nullptr && on != nullptr && heap_.give_quick(b, n.bytes, n.alignment, n.on)) {
                return;
            }
            if (!heap_.give(b, n.bytes, n.alignment, on, true)) { refuse_remote(n, false); }
        });
    }

    /// Registers the stream `s`. If its id is not known yet, it is queried, which CUDA forbids
    /// while `s` is being captured. Throws if the query fails.
    void meet(stream s) {
        auto const held = lock_.hold();
        heap_.meet(s);
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
        // Copied here, because the heap counts the live bytes.
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
        std::size_t back = 0;
        {
            auto held = lock_.hold();
            heap_.poll();
            // Parts of chunks are returned first, so that not more is returned than needed.
            if (keep != 0) { back += growth_.chunks().trim_within(*this, keep, held); }
            for (bool waited = false; unused() > keep;) {
                if (growth_.give_chunk_back(*this, heap_.remove_idle(held), held, back)) {
                    continue;
                }
                if (std::exchange(waited, true)) { break; }
                heap_.finish(held); // waits, and coalesces free blocks: a chunk may be idle then
            }
            back += growth_.chunks().trim_within(*this, keep, held);
        }
        return this->trim_beneath(back);
    }
    std::size_t trim_no_wait() {
        std::size_t back = 0;
        auto        held = lock_.hold();
        heap_.poll_idle();
        while (growth_.give_chunk_back(*this, heap_.remove_ready(), held, back)) {}
        return back;
    }
    void retire(stream s) {
        {
            auto const held = lock_.hold();
            heap_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    void forget_captures() {
        {
            auto const held = lock_.hold();
            heap_.forget_captures();
        }
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }

    /// Reports a free of `p` that was rejected, and the reason. Does nothing if `p` is null.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        if (p == nullptr) { return; }
        refused_free e{own_name, p, bytes, alignment, at};
        e.template on<platform>(on);
        {
            auto const held = lock_.hold();
            heap_.explain_refusal(e);
        }
        e.template report<platform>();
        seen().notify(memory_event_kind::free_refused, p, bytes, on, at);
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }

    /// Reports a remote free that is refused. `stale`: the block was freed before this free was
    /// queued, or later and allocated again. Otherwise the lock must be held.
    template <class Note>
    [[gnu::cold, gnu::noinline]] void refuse_remote(Note const& n, bool stale) noexcept {
        refused_free e{own_name, n.p, n.bytes, n.alignment, n.at};
        if (n.in_use && !is_destroyed<platform>(n.on)) { e.template on<platform>(&n.on); }
        stale ? (void)e.found_free() : heap_.explain_refusal(e);
        e.template report<platform>();
        seen().notify(memory_event_kind::free_refused, n.p, n.bytes, n.in_use ? &n.on : nullptr,
                      n.at);
    }

    /// Returns the bytes that are reserved and not live. The lock must be held.
    [[nodiscard]] std::size_t unused() const noexcept {
        return budget_.usage.reserved - heap_.live_bytes();
    }

    pool_options                  options_;
    mutable heap                  heap_; ///< mutable: reading the usage coalesces cached blocks
    pool_growth<Upstream, Growth> growth_;

private:
    /// The name of the resource in error messages.
    static constexpr char const* own_name = [] {
        if constexpr (requires { Upstream::pool_name; }) {
            return Upstream::pool_name;
        } else {
            return "pool";
        }
    }();

    /// If pages are remapped, large blocks are not cached: a large block at another address than
    /// before costs more than the cache saves.
    [[nodiscard]] static constexpr std::size_t large_limit(pool_options const& o) noexcept {
        return o.remap ? 0 : quick_lists::large_limit;
    }

    template <bool Throwing>
    [[gnu::always_inline]] void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        auto held = lock_.hold();
        if (block* const b = heap_.take_quick(s, bytes, alignment)) [[likely]] {
            return b->pointer();
        }
        return search<Throwing>(s, bytes, alignment, std::move(held));
    }
    // Not inlined into `get_on`, so that the stream stays in a register there.
    template <bool Throwing>
    [[gnu::noinline]] void* search(stream s, std::size_t bytes, std::size_t alignment, guard held) {
        return get<Throwing>({.asked = bytes, .alignment = alignment, .on = &s}, std::move(held));
    }
    template <bool Throwing>
    void* get(request const& r, guard held) {
        if (r.asked != 0 && r.possible() && valid_alignment(r.alignment)) {
            if (void* const p = take(r, held)) { return p; }
            if (void* const p = make_room(r, held)) { return p; }
        }
        if (held.owns_lock()) { held.unlock(); }
        expects(valid_alignment(r.alignment), "pool: the alignment must be a power of two");
        if (r.asked == 0) { return nullptr; }
        if constexpr (Throwing) {
            return must_grow(r);
        } else {
            return nullptr;
        }
    }
    [[gnu::noinline]] bool put_on(stream s, block* b, std::size_t bytes, std::size_t alignment,
                                  guard /* until it returns */) noexcept {
        return put(b, bytes, alignment, &s);
    }
    /// Frees the block `b`, which the stream `on` (null: no stream) may still use. Returns false
    /// and changes nothing if `b` is null, or if it was allocated with another size or alignment.
    bool put(block* b, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        return b != nullptr && heap_.give(b, bytes, alignment, on);
    }
    /// Allocates a block from the reserved memory. If the stream would have to wait for one,
    /// allocates a chunk that the upstream has ready for it instead.
    void* take(request const& r, guard& held) {
        if constexpr (reusing_resource<Upstream>) {
            bool must_wait = false;
            if (r.on != nullptr) {
                void* const p = heap_.take(r, held, false, &must_wait);
                if (p != nullptr || !must_wait) { return p; }
                held.unlock();
                void* const beneath = growth_.ready_chunk(*this, r);
                held.lock();
                if (beneath != nullptr) { return beneath; }
            }
        }
        return heap_.take(r, held, false);
    }
    /// Tries all other ways to find memory for a request, in this order: free blocks whose missing
    /// pages can be mapped, a query of the streams, a hole between large blocks, growing, the heap
    /// for the other kind of sizes (small or large), growing after another thread has remapped
    /// pages, growing after idle chunks were returned, waiting for everything that was freed.
    /// Returns null if all of them fail. For a stream that is being captured, steps that query or
    /// wait are left out.
    void* make_room(request const& r, guard& held) {
        // A stream that is being captured must neither wait nor query.
        bool const captured = is_captured<platform>(r.on);
        if (void* const p = growth_.chunks().take_partly_backed(*this, r, captured, held)) {
            return p;
        }
        if (!captured) { heap_.poll_all(); }
        if (void* const p = heap_.take(r, held, true)) { return p; }
        if (!captured) {
            if (void* const p = growth_.chunks().take_in_hole(*this, r)) { return p; }
        }
        held.unlock();
        if (void* const p = growth_.enlarge(*this, r, captured)) { return p; }
        held.lock();
        void* p = heap_.take_elsewhere(r, held);
        // Another thread was changing mappings: it may have left some memory.
        while (p == nullptr && !captured && growth_.chunks().await_others(held)) {
            held.unlock();
            p = growth_.chunks().grow_in_place(*this, r, false, false);
            held.lock();
        }
        held.unlock();
        if (p != nullptr || captured) { return p; }
        if (trim() != 0) {
            if ((p = growth_.chunks().grow_in_place(*this, r, false, false)) != nullptr) {
                return p;
            }
            if ((p = growth_.template new_chunk<false>(*this, r, r.bytes, &r)) != nullptr) {
                return p;
            }
        }
        held.lock();
        heap_.finish(held);
        p = heap_.take(r, held, true);
        if (p == nullptr) { p = heap_.take_elsewhere(r, held); }
        held.unlock();
        return p;
    }
    /// The last attempt: allocates a chunk for the request. If the upstream refuses it, rethrows
    /// its exception with the pool's numbers added.
    void* must_grow(request const& r) {
        return this->or_throw(
            {r.asked, r.bytes, r.alignment, r.on},
            [&]() -> void* {
                return r.possible() ? growth_.template new_chunk<true>(*this, r, r.bytes, &r)
                                    : nullptr;
            },
            [&] {
                // Copied here, because the heap counts the live bytes.
                budget_.usage.live = heap_.live_bytes();
                return heap_.blocks().largest_free();
            });
    }

    void give_everything_back() noexcept {
        if (is_ending<platform>() || heap_.blocks().empty()) { return; }
        auto const seen = this->seen();
        // No other thread uses the pool. The lock is needed by functions that release it in a wait.
        if (heap_.live_bytes() != 0) {
            error left    = heap_.leak();
            left.resource = own_name;
            report_error(left);
        }
        auto held = lock_.hold();
        heap_.wait_for_all(held);
        held.unlock();
        heap_.blocks().for_each_chunk([&](chunk const& c) {
            seen.notify(memory_event_kind::chunk_removed, c.base, c.bytes);
            sited{this->upstream_}.deallocate_sync(c.base, c.bytes, c.alignment);
        });
    }
};

} // namespace detail
} // namespace vram
