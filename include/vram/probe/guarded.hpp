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

/// A resource with a fence before and after each block. After the free of a block, a changed byte
/// of its fences is reported to the error sink, with the line that allocated the block. New memory
/// is filled with 0xCD.
///
///     guarded mr{pool{cuda_resource{}}};
///     auto mr = source | with::pool | with::guarded({.quarantine = 64_MiB});
///
/// With a quarantine, freed blocks are filled with 0xDD and kept for a time; a byte that was
/// written after the free is reported. The layer finds no reads outside of a block, and no write
/// beyond the fence: use compute-sanitizer, or the simulated device, for these. A block that is
/// freed during a capture is not checked. Put the layer over the pools: below a pool, a simulated
/// device reports the layer's fills as unordered, because it does not count the pool's waits.
///
/// Failure   As the upstream. If a fill of new memory fails, throws; `try_allocate` reports it and
///           returns null. A wrong free is reported and frees nothing.
/// Threads   The rules are those of the upstream.
/// Streams   Fills and copies are work of the stream of the call; fills in a capture become nodes
///           of the graph.
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

    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
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
        std::optional<block> freed = state_->take(p, bytes, at);
        if (!freed) { return; }
        if (!book::is_capturing(s)) {
            state_->checks.compare_ready();
            state_->checks.copy_fences(s, *freed);
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
        std::optional<block> freed = state_->take(p, bytes, at);
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

    /// Checks the fences of all live blocks and the quarantine. First synchronize all streams of
    /// the blocks; nothing may write or free blocks meanwhile.
    void check_blocks() noexcept {
        state_->checks.compare_all();
        auto const own = state_->own_stream();
        if (!own) { return; }
        std::vector<block> const live = state_->all_live();
        for (block const& b : live) { compare_fences(*own, b); }

        std::list<kept_block> kept; // the quarantine, moved here so that no thread frees its blocks
        {
            auto const held = state_->lock.hold();
            kept.swap(state_->kept);
        }
        for (kept_block const& each : kept) { compare_kept(*own, each); }
        {
            auto const held = state_->lock.hold();
            state_->kept.splice(state_->kept.begin(), kept);
        }
        release(state_->options.quarantine);
    }

    /// Returns the figures of the upstream, which include the fences. `live` excludes the blocks in
    /// the quarantine.
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
    /// Checks and frees the blocks in the quarantine. Then returns the result of `trim(keep)` of
    /// the upstream: the number of bytes that it returned.
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

    /// Returns the number of bytes between the start of the upstream's block and the address that
    /// the program gets: the size of a fence, or the alignment if that is larger.
    [[nodiscard]] std::size_t front(std::size_t alignment) const noexcept {
        return detail::larger_of(alignment, state_->checks.fence());
    }
    [[nodiscard]] std::size_t total(std::size_t bytes, std::size_t alignment) const noexcept {
        std::size_t const fences = front(alignment) + state_->checks.fence();
        return bytes == 0 ? 0 : saturating_add(bytes, fences);
    }
    /// Returns the live bytes that the upstream counts for a block: with both fences, rounded up.
    [[nodiscard]] std::size_t live_size(block const& b) const noexcept {
        return detail::rounded_size(this->upstream_, total(b.bytes, b.alignment), b.alignment);
    }
    [[nodiscard]] std::byte* base_of(block const& b) const noexcept {
        return b.p - front(b.alignment);
    }

    /// Returns the result of `make()`, an allocation. After a refusal, empties the quarantine and
    /// calls `make` again, unless `s` is being captured.
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
    /// Writes the fences into `all`, a block of the upstream, and returns the address after the
    /// first fence. If a step fails, calls `undo(all)` and throws.
    template <class Undo>
    [[nodiscard]] void* fence(stream s, void* all, std::size_t bytes, std::size_t alignment,
                              call_site at, Undo const& undo) {
        if (all == nullptr || bytes == 0) { return all; }
        try {
            std::byte* const  p = static_cast<std::byte*>(all) + front(alignment);
            std::size_t const n = state_->checks.fence();
            where::fill(s, p - n, checks::fence_byte, n);
            where::fill(s, p + bytes, checks::fence_byte, n);
            if (state_->options.fills) { where::fill(s, p, checks::fresh_byte, bytes); }
            state_->add({p, bytes, alignment, at, current_tag(), {}});
            return p;
        } catch (...) {
            undo(all);
            throw;
        }
    }
    [[nodiscard]] void* fence_sync(void* all, std::size_t bytes, std::size_t alignment,
                                   call_site at) {
        if (all == nullptr || bytes == 0) { return all; }
        auto const undo = [&](void* p) {
            sited{this->upstream_, at}.deallocate_sync(p, total(bytes, alignment), alignment);
        };
        std::optional<stream> own;
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

    /// Puts a freed block into the quarantine, and frees the oldest blocks beyond its limit.
    /// Returns false if the block cannot be kept.
    bool hold_back(stream s, block const& freed) noexcept {
        if (state_->options.quarantine == 0) { return false; }
        state_->fill(s, freed.p, checks::freed_byte, freed.bytes, true);
        try {
            typename where::event unused{where::device_of(s)};
            where::record(unused, s);
            auto const held = state_->lock.hold();
            state_->kept.push_back({freed, std::move(unused)});
            state_->kept_bytes += freed.bytes;
            state_->kept_live += live_size(freed);
        } catch (...) {
            detail::report_failed_call("guarded: quarantine");
            return false;
        }
        release(state_->options.quarantine);
        return true;
    }
    /// Checks and frees the oldest blocks in the quarantine until it has at most `most` bytes.
    void release(std::size_t most) noexcept {
        for (;;) {
            std::optional<kept_block> oldest;
            {
                auto const held = state_->lock.hold();
                if (state_->kept.empty() || state_->kept_bytes <= most) { return; }
                oldest.emplace(std::move(state_->kept.front()));
                state_->kept.pop_front();
                state_->kept_bytes -= oldest->freed.bytes;
                state_->kept_live -= live_size(oldest->freed);
            }
            block const& b = oldest->freed;
            if (auto const own = state_->own_stream()) { compare_kept(*own, *oldest); }
            sited{this->upstream_, b.freed_at}.deallocate_sync(
                base_of(b), total(b.bytes, b.alignment), b.alignment);
        }
    }

    /// Waits for the work on a block in the quarantine, and reports a byte that is not 0xDD.
    void compare_kept(stream own, kept_block const& kept) noexcept {
        block const& b = kept.freed;
        try {
            where::synchronize(kept.unused);
        } catch (...) { return detail::report_failed_call("guarded: quarantine"); }
        state_->checks.compare_now(own, b.p, b.bytes, checks::freed_byte, b);
    }
    void compare_fences(stream own, block const& b) noexcept {
        std::size_t const n = state_->checks.fence();
        state_->checks.compare_now(own, b.p - n, n, checks::fence_byte, b);
        state_->checks.compare_now(own, b.p + b.bytes, n, checks::fence_byte, b);
    }
    /// Completes the checks of freed blocks, checks and frees the quarantine, and destroys
    /// `state_`. At the end of the process, only leaks `state_`.
    void end() noexcept {
        if (state_ == nullptr) { return; }
        if (detail::is_ending<where>()) { return static_cast<void>(state_.release()); }
        state_->checks.compare_all();
        release(0);
        state_.reset();
    }

    std::unique_ptr<book> state_; // a pointer: the layer can be moved, the state cannot
};

namespace with {
/// Puts a `guarded` layer over a resource: `source | with::pool | with::guarded()`.
[[nodiscard]] inline auto guarded(guarded_options options = {}) {
    return layer<vram::guarded>(options);
}
} // namespace with

} // namespace vram
