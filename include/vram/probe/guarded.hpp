// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `guarded` is a layer that fills and fences device memory, and finds writes outside of blocks.

#include <vram/base/align.hpp> // saturating_add, default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/core/null_if_thrown.hpp>
#include <vram/base/core/smaller_of.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/base/tag.hpp>                // current_tag
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/user_line.hpp>
#include <vram/concepts/powers.hpp> // fallible_resource, rounded_size
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer
#include <vram/probe/core/guard_book.hpp>
#include <vram/probe/core/guard_checks.hpp> // guard_checks, guarded_block
#include <vram/probe/guarded_options.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <list>     // list
#include <memory>   // unique_ptr, make_unique
#include <new>      // bad_alloc
#include <optional> // optional, nullopt
#include <utility>
#include <vector> // vector

namespace vram {

/// A layer that finds writes outside of a block. Each block has a fence (guard bytes of a known
/// value) before and after it. After the block is freed, the layer checks both fences. It reports a
/// changed byte to the error sink, with the program line that allocated the block.
///
///     guarded mr{pool{cuda_resource{}}};
///     auto mr = source | with::pool | with::guarded({.quarantine = 64_MiB});
///
/// New memory is filled with 0xCD. With the option `quarantine`, the layer fills freed blocks with
/// 0xDD and keeps them for a time. It reports a byte that was written after the free. The layer
/// does not find reads outside of a block, or writes beyond the fence. Use compute-sanitizer for
/// these, or the simulated device without this layer. The layer does not check fences of blocks
/// that are allocated or freed in a capture. Put the layer over the pools. Below a pool, the
/// simulated device would report the fills of the layer as unordered, because it does not count
/// waits inside the pool.
///
/// Failure   As the upstream. If a fill of new memory fails, `allocate` throws; `try_allocate`
///           reports the error and returns null. A wrong free is reported and frees nothing.
/// Threads   The rules are those of the upstream.
/// Streams   Fills and copies are work on the stream of the call. During a capture, fills become
///           nodes of the graph.
/// Cost      Up to three fills per allocation, two copies and a fill per free, and two fences per
///           block. Functions without a stream wait.
template <class Upstream>
    requires platform<typename Upstream::platform>
class guarded : public layer_base<detail::checked_upstream<Upstream>> {
    using base  = layer_base<Upstream>;
    using where = typename Upstream::platform;
    using block = detail::guarded_block;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    /// Creates the layer over `upstream`.
    explicit guarded(Upstream upstream, guarded_options options = {})
        : base{std::move(upstream)}, state_{std::make_unique<book>(options)} {}
    guarded(guarded&&) = default;
    guarded& operator=(guarded&& other) noexcept {
        if (this != &other) {
            end();
            base::operator=(std::move(other));
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~guarded() { end(); }

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<guarded> Same>
    guarded(Same& other) : guarded{detail::refuse_copy(other)} {}
    template <std::same_as<guarded> Same>
    guarded& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        std::size_t const all = total(bytes, alignment);
        void* const       got = retried(
            s, bytes, [&] { return sited{this->upstream_, at}.allocate(s, all, alignment); });
        return fence(s, got, bytes, alignment, at,
                     [&](void* p) { sited{this->upstream_, at}.deallocate(s, p, all, alignment); });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        std::size_t const all = total(bytes, alignment);
        void* const       got = retried(std::nullopt, bytes, [&] {
            return sited{this->upstream_, at}.allocate_sync(all, alignment);
        });
        return fence_sync(got, bytes, alignment, at);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        std::size_t const all     = total(bytes, alignment);
        auto const        attempt = [&] {
            void* const got = retried(s, bytes, [&] {
                return sited{this->upstream_, at}.try_allocate(s, all, alignment);
            });
            return fence(s, got, bytes, alignment, at, [&](void* p) {
                sited{this->upstream_, at}.deallocate(s, p, all, alignment);
            });
        };
        return detail::null_if_thrown("guarded", bytes, attempt, at);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        std::size_t const all     = total(bytes, alignment);
        auto const        attempt = [&] {
            void* const got = retried(std::nullopt, bytes, [&] {
                return sited{this->upstream_, at}.try_allocate_sync(all, alignment);
            });
            return fence_sync(got, bytes, alignment, at);
        };
        return detail::null_if_thrown("guarded", bytes, attempt, at);
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        std::size_t const all = total(bytes, alignment);
        return fence(s, sited{this->upstream_, at}.try_allocate_ready(s, all, alignment), bytes,
                     alignment, at,
                     [&](void* p) { sited{this->upstream_, at}.deallocate(s, p, all, alignment); });
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        if (p == nullptr) { return sited{this->upstream_, at}.deallocate(s, p, bytes, alignment); }
        detail::user_line<where> const here{at};
        std::optional<block>           freed = state_->take(p, bytes, at);
        if (!freed) { return; }
        if (!book::is_capturing(s)) {
            state_->checks.compare_ready();
            if (!freed->captured) { state_->checks.copy_fences(s, *freed); }
            if (hold_back(s, *freed)) { return; }
        }
        state_->fill(s, freed->p, checks::freed_byte, bytes);
        sited{this->upstream_, at}.deallocate(s, base_of(*freed), total(bytes, freed->alignment),
                                              freed->alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr) {
            return sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        }
        detail::user_line<where> const here{at};
        std::optional<block>           freed = state_->take(p, bytes, at);
        if (!freed) { return; }
        if (auto const own = state_->own_stream()) {
            compare_fences(*own, *freed);
            if (hold_back(*own, *freed)) { return; }
            state_->fill(*own, freed->p, checks::freed_byte, bytes);
            book::synchronize(*own);
        }
        sited{this->upstream_, at}.deallocate_sync(base_of(*freed), total(bytes, freed->alignment),
                                                   freed->alignment);
    }

    /// Checks the fences of all live blocks, and the quarantined blocks. Synchronize all streams of
    /// the blocks before the call. No thread or stream may write or free blocks during the call.
    void check_blocks() noexcept {
        state_->checks.compare_all();
        auto const own = state_->own_stream();
        if (!own) { return; }
        std::vector<block> const live = state_->all_live();
        for (block const& b : live) { compare_fences(*own, b); }
        std::list<kept_block> kept;
        {
            auto const held = state_->lock.hold();
            kept.swap(state_->kept);
        }
        for (kept_block const& each : kept) { compare_kept(own, each); }
        {
            auto const held = state_->lock.hold();
            state_->kept.splice(state_->kept.begin(), kept);
        }
        release(state_->options.quarantine);
    }

    /// Returns the figures of the upstream, with the fences. `live` excludes quarantined blocks.
    [[nodiscard]] memory_usage usage() const
        requires measured_resource<Upstream>
    {
        auto const   held = state_->lock.hold();
        memory_usage now  = this->upstream_.usage();
        now.live -= detail::smaller_of(now.live, state_->kept_live);
        return now;
    }

    [[nodiscard]] bool owns(void const* p) const
        requires owning_resource<Upstream>
    {
        return state_->is_live(p) || this->upstream_.owns(p);
    }
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Upstream>
    {
        return this->upstream_.rounded_size(total(bytes, alignment), alignment);
    }
    /// Checks and frees the quarantined blocks. Returns the result of `trim(keep)` of the upstream.
    std::size_t trim(std::size_t keep = 0)
        requires trimmable_resource<Upstream>
    {
        release(0);
        return this->upstream_.trim(keep);
    }

    /// Returns the size of the quarantine: the requested bytes of freed blocks that it keeps.
    [[nodiscard]] std::size_t quarantined() const noexcept {
        auto const held = state_->lock.hold();
        return state_->kept_bytes;
    }

private:
    using checks     = detail::guard_checks<where>;
    using book       = detail::guard_book<where>;
    using kept_block = typename book::kept_block;

    /// Returns the distance in bytes from the start of the upstream's block to the address that the
    /// program gets. It has room for a fence (guard bytes), and is a multiple of `alignment`.
    [[nodiscard]] std::size_t front(std::size_t alignment) const noexcept {
        return detail::larger_of(alignment, state_->checks.fence());
    }
    [[nodiscard]] std::size_t total(std::size_t bytes, std::size_t alignment) const noexcept {
        std::size_t const fences = front(alignment) + state_->checks.fence();
        return bytes == 0 ? 0 : saturating_add(bytes, fences);
    }
    /// Returns the number of bytes that the block `b` adds to the live bytes of the upstream.
    [[nodiscard]] std::size_t live_size(block const& b) const noexcept {
        return detail::rounded_size(this->upstream_, total(b.bytes, b.alignment), b.alignment);
    }
    [[nodiscard]] std::byte* base_of(block const& b) const noexcept {
        return b.p - front(b.alignment);
    }

    /// Calls `make()`, which allocates from the upstream, and returns its result. If the upstream
    /// refuses, frees the quarantined blocks and calls `make()` once more. Does not retry if there
    /// are no quarantined blocks, or if the stream `s` is being captured.
    template <class Make>
    [[nodiscard]] void* retried(std::optional<stream> s, std::size_t bytes, Make const& make) {
        auto emptied = [&, tried = false]() mutable {
            if (std::exchange(tried, true) || quarantined() == 0) { return false; }
            if (s && book::is_capturing(*s)) { return false; }
            release(0);
            return true;
        };
        for (;;) {
            try {
                void* const p = make();
                if (p != nullptr || bytes == 0 || !emptied()) { return p; }
            } catch (out_of_memory& e) {
                e.numbers().asked = bytes;
                if (!emptied()) { throw; }
            } catch (std::bad_alloc const&) {
                if (!emptied()) { throw; }
            }
        }
    }
    /// Writes both fences (guard bytes) into `all`, a block of the upstream. Returns the address
    /// after the first fence. If this fails, frees the block by `undo(all)` and throws.
    template <class Undo>
    [[nodiscard]] void* fence(stream s, void* all, std::size_t bytes, std::size_t alignment,
                              call_site at, Undo const& undo) {
        if (all == nullptr || bytes == 0) { return all; }
        detail::user_line<where> const here{at};
        try {
            std::byte* const  p = static_cast<std::byte*>(all) + front(alignment);
            std::size_t const n = state_->checks.fence();
            where::fill(s, p - n, checks::fence_byte, n);
            where::fill(s, p + bytes, checks::fence_byte, n);
            if (state_->options.fills) { where::fill(s, p, checks::fresh_byte, bytes); }
            state_->add({p, bytes, alignment, at, current_tag(), {}, book::is_capturing(s)});
            return p;
        } catch (...) {
            undo(all);
            throw;
        }
    }
    [[nodiscard]] void* fence_sync(void* all, std::size_t bytes, std::size_t alignment,
                                   call_site at) {
        if (all == nullptr || bytes == 0) { return all; }
        std::optional<stream> own;
        auto const            undo = [&](void* p) {
            if (own) { book::synchronize(*own); } // for the fills that are already queued
            sited{this->upstream_, at}.deallocate_sync(p, total(bytes, alignment), alignment);
        };
        try {
            own.emplace(state_->make_own_stream());
        } catch (...) {
            undo(all);
            throw;
        }
        void* const p = fence(*own, all, bytes, alignment, at, undo);
        book::synchronize(*own);
        return p;
    }

    /// Keeps a freed block in the quarantine, and frees the oldest kept blocks beyond the size
    /// limit of the quarantine. Returns false if the block is not kept.
    bool hold_back(stream s, block const& freed) noexcept {
        if (state_->options.quarantine == 0) { return false; }
        state_->fill(s, freed.p, checks::freed_byte, freed.bytes, true);
        try {
            typename where::event unused{where::device_of(s)};
            where::record(unused, s);
            std::list<kept_block> one;
            one.push_back({freed, std::move(unused), live_size(freed)});
            state_->keep(one, false);
        } catch (...) {
            detail::report_failed_call("guarded: quarantine");
            return false;
        }
        release(state_->options.quarantine);
        return true;
    }
    /// Checks and frees the oldest blocks in the quarantine until it has at most `most` bytes.
    /// Keeps a block if the wait for its uses fails.
    void release(std::size_t most) noexcept {
        std::list<kept_block> failed;
        while (most == 0 || failed.empty()) {
            std::list<kept_block> oldest = state_->take_oldest(most);
            if (oldest.empty()) { break; }
            block const& b = oldest.front().freed;
            if (compare_kept(state_->own_stream(), oldest.front())) {
                sited{this->upstream_, b.freed_at}.deallocate_sync(
                    base_of(b), total(b.bytes, b.alignment), b.alignment);
            } else {
                failed.splice(failed.end(), oldest);
            }
        }
        state_->keep(failed, true);
    }

    /// Waits for the event `kept.unused`, after which no stream uses the freed block. Reports its
    /// first byte that is not 0xDD, the value written at its free, if there is a stream `own`.
    /// Returns false if the wait fails, which is reported.
    bool compare_kept(std::optional<stream> own, kept_block const& kept) noexcept {
        if (!book::await_uses(kept)) { return false; }
        block const& b = kept.freed;
        if (own) { state_->checks.compare_now(*own, b.p, b.bytes, checks::freed_byte, b); }
        return true;
    }
    void compare_fences(stream own, block const& b) noexcept {
        std::size_t const n = b.captured ? 0 : state_->checks.fence();
        state_->checks.compare_now(own, b.p - n, n, checks::fence_byte, b);
        state_->checks.compare_now(own, b.p + b.bytes, n, checks::fence_byte, b);
    }
    /// Completes the checks of freed blocks, frees the quarantined blocks, and destroys `state_`
    /// (the records of the layer). If the process is ending, only leaks `state_`.
    void end() noexcept {
        if (state_ == nullptr) { return; }
        if (detail::is_ending<where>()) { return static_cast<void>(state_.release()); }
        state_->checks.compare_all();
        release(0);
        state_.reset();
    }

    std::unique_ptr<book> state_; // on the heap, because a `guard_book` cannot be moved
};

namespace with {
/// Adds the layer `guarded`, which finds writes outside of blocks:
/// `source | with::pool | with::guarded()`.
[[nodiscard]] inline auto guarded(guarded_options options = {}) {
    return layer<vram::guarded>(options);
}
} // namespace with

} // namespace vram
