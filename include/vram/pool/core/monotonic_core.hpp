// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic_core` is the allocator inside `monotonic`.

#include <vram/base/align.hpp> // align, default_alignment, unsatisfiable
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/and_upstream.hpp>
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/observation.hpp> // resource_call
#include <vram/concepts/growth.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/concepts/powers.hpp>   // retiring_resource, forgetting_resource
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/chunk_sizes.hpp>
#include <vram/pool/core/growing_base.hpp>
#include <vram/pool/core/stream_bump.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // assignable_from
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The allocator inside `monotonic`. Allocates chunks from the upstream, and blocks from the chunks
/// with a bump pointer. Memory is reused after `unwind` or `reset`.
///
/// Failure   A refused request throws or returns null. `put` returns false for an invalid free.
/// Threads   Any number of threads may call concurrently.
/// Streams   As `monotonic`.
template <synchronous_resource Upstream, growth Growth>
class monotonic_core : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    using base::device_memory;
    using base::room;
    using base::seen;

    monotonic_core(Upstream upstream, pool_options const& options, Growth growth)
        : base{"monotonic", std::move(upstream), options.max_size},
          sizes_{std::move(growth)},
          books_{options.events, options.graphs} {
        expect_no_page_options(options,
                               "monotonic: `remap` and `slack` have no effect; leave them out, or "
                               "use a pool over virtual memory");
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "monotonic: `initial_size` must not exceed `max_size`");
        std::size_t const size = options.initial_size;
        this->template grow<true>(size, default_alignment, nullptr, [&](void* at) {
            books_.add({at, size, default_alignment});
            return at;
        });
    }
    monotonic_core(monotonic_core&&) = default;
    /// Returns the object that notifies the observers of events. The flag `until_reset` of the
    /// events tells that freed memory is not allocated again before an event `all_freed`.
    [[nodiscard, gnu::always_inline]] observation<Upstream> seen() noexcept {
        return {this->upstream_, "monotonic", &this->lock_, false, true};
    }
    /// Returns all chunks to the upstream, then takes over the upstream and the chunks of `other`.
    monotonic_core& operator=(monotonic_core&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        sizes_ = std::move(other.sizes_);
        books_ = std::move(other.books_);
        return *this;
    }
    ~monotonic_core() { give_everything_back(); }

    /// Allocates a block for the stream `on` (null: any stream). A refused request throws
    /// `out_of_memory` if `Throwing`, and otherwise returns null.
    template <bool Throwing>
    void* get(std::size_t bytes, std::size_t alignment, stream const* on) {
        expects(valid_alignment(alignment), "monotonic: the alignment must be a power of two");
        if (bytes == 0) { return nullptr; }
        request const  r{bytes, align(bytes, default_alignment), alignment, on};
        growth_request wish{.needed = r.rounded};
        if (r.rounded != unsatisfiable) {
            {
                auto        held = this->lock_.hold();
                void* const p    = books_.take({r.asked, r.alignment, r.on}, held);
                if (p != nullptr) { return counted(p, r); }
                wish.held = this->budget_.usage.reserved;
            }
            void* const grown = stepping_down(
                sizes_.wanted(*this, r.on, wish, default_alignment, unsatisfiable), r.rounded,
                [&](std::size_t n) { return grow_by<false>(r, align(n, default_alignment)); });
            if (grown != nullptr) { return grown; }
            // `trim` may make the host wait, which is not allowed during a capture.
            if (!is_captured<platform>(on) && trim() != 0) {
                if (void* const p = grow_by<false>(r, r.rounded)) { return p; }
            }
        }
        if constexpr (Throwing) {
            return this->or_throw(
                r,
                [&] { return r.rounded != unsatisfiable ? grow_by<true>(r, r.rounded) : nullptr; },
                [&] { return books_.stack().free_memory().largest; });
        } else {
            return nullptr;
        }
    }
    // Same as `get<true>`, for which a refused request throws `out_of_memory`. The stream is passed
    // by value, so that it can stay in a register.
    void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        return get<true>(bytes, alignment, &s);
    }
    void* try_get(std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        return base::or_null(bytes, [&] { return get<false>(bytes, alignment, on); });
    }

    /// Counts the block of `bytes` bytes at `p` as free. If `on` is not null, that stream may still
    /// use the block. Returns false for an invalid free.
    [[nodiscard]] bool put(void* p, std::size_t bytes, stream const* on) noexcept {
        if (p == nullptr) { return true; }
        auto const held = this->lock_.hold();
        auto const how  = books_.give(p, bytes, on);
        // With `freed::lost`, the end of the block's use is unknown, so the block stays live. The
        // free was valid all the same.
        if (how == stream_bump<platform>::freed::done) { this->count_back(bytes, bytes); }
        return how != stream_bump<platform>::freed::no_block;
    }
    [[nodiscard]] bool put_on(stream s, void* p, std::size_t bytes) noexcept {
        return put(p, bytes, &s);
    }
    /// Reports a free that was rejected, and the reason.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        this->report_refusal(p, bytes, alignment, on, at,
                             [&](auto& e) { books_.explain_refusal(e); });
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }

    /// Creates a mark (a position for `unwind`) behind the last block. Returns its number, which is
    /// that of `next()`. If there is already a mark at this position, returns its number instead.
    template <class Next>
    [[nodiscard]] std::uint64_t mark(Next const& next) {
        auto const held = this->lock_.hold();
        return books_.stack().mark(next()); // with the lock held: later marks have larger numbers
    }
    /// Frees all blocks allocated since the mark with the number `serial`, which must exist. The
    /// stream `on` (null: none) may still use the blocks. If this use can be neither recorded nor
    /// waited for, frees nothing. `at`: the caller's line, for observers.
    void unwind(std::uint64_t serial, stream const* on, call_site at) {
        auto const held = this->lock_.hold();
        expects(books_.stack().has(serial),
                "monotonic: the mark must belong to this resource and must not be unwound");
        unwind_to(serial, on, at);
    }
    /// Frees all blocks, and removes all marks (positions for `unwind`). If `on` is not null, that
    /// stream may still use the blocks. If this use cannot be recorded, waits for the stream. If
    /// the wait also fails, frees nothing and reports a leak. `at`: the caller's line.
    void reset(stream const* on, call_site at) noexcept {
        auto const held = this->lock_.hold();
        unwind_to(0, on, at);
    }

    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return books_.stack().owns(p);
    }
    [[nodiscard]] memory_usage usage() const {
        resource_call<platform> const own;
        auto const                    held = this->lock_.hold();
        memory_usage                  now  = this->budget_.usage;
        now.largest_free                   = books_.stack().free_memory().largest;
        now.pending                        = books_.uses().pending();
        now.events                         = books_.uses().timelines().events();
        now.waits                          = books_.uses().timelines().waits();
        return now;
    }
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return books_.stack().free_memory();
    }
    std::size_t trim(std::size_t keep = 0) {
        auto const  observers = seen();
        auto const  waits     = observers.watch();
        std::size_t back      = 0;
        {
            auto held = this->lock_.hold();
            while (books_.stack().free_memory().bytes > keep) {
                auto const gone = books_.remove_idle(held);
                if (gone.bytes() == 0) { break; }
                back += gone.bytes();
                this->give_back(gone.base(), gone.bytes(), gone.alignment(), held);
            }
        }
        return this->trim_beneath(back);
    }
    void retire(stream s) {
        resource_call<platform> const own;
        and_upstream::retire(this->upstream_, s, [&] {
            auto const held = this->lock_.hold();
            books_.uses().retire(s);
        });
    }
    void forget_captures() {
        auto const observers = seen();
        and_upstream::forget_captures(this->upstream_, [&] {
            auto const waits = observers.watch();
            auto       held  = this->lock_.hold();
            books_.uses().forget_captures(held);
        });
    }

private:
    using typename base::request;

    void* counted(void* p, request const& r) noexcept {
        this->count_out(r.asked, r.asked);
        return p;
    }
    /// Allocates a chunk of `size` bytes, and the block for `r` in this chunk. Returns null if the
    /// limit has no room. If the upstream refuses, throws if `Throwing`, and otherwise returns
    /// null.
    template <bool Throwing>
    void* grow_by(request const& r, std::size_t size) {
        std::size_t const alignment =
            r.alignment > default_alignment ? r.alignment : default_alignment;
        stream const* const order = this->order_of(r.on);
        return this->template grow<Throwing>(size, alignment, order, [&](void* at) {
            return counted(books_.add({at, size, alignment}, order, {r.asked, r.alignment, r.on}),
                           r);
        });
    }
    /// Frees all blocks since the mark with the number `serial`, or all blocks if `serial` is 0. If
    /// `on` is not null, that stream may still use the blocks. If this use can be neither recorded
    /// nor waited for, frees nothing. Notifies the observers. The lock must be held.
    void unwind_to(std::uint64_t serial, stream const* on, call_site line) noexcept {
        auto const        observers = seen();
        std::size_t const out       = books_.unwind(serial, on, [&](void* at, std::size_t bytes) {
            observers.notify(memory_event_kind::all_freed, at, bytes, on, line);
        });
        this->count_back(out, out);
    }
    void give_everything_back() noexcept {
        if (is_ending<platform>() || books_.stack().chunks().size() == 0) { return; }
        auto const observers = seen();
        auto const waits     = observers.watch();
        auto       held      = this->lock_.hold();
        unwind_to(0, nullptr, {});
        books_.wait_for_all(held);
        held.unlock();
        for (auto const& c : books_.stack().chunks()) {
            observers.notify(memory_event_kind::chunk_removed, c.base(), c.bytes());
            sited{this->upstream_}.deallocate_sync(c.base(), c.bytes(), c.alignment());
        }
        books_.stack().chunks().clear();
    }

    [[no_unique_address]] chunk_sizes<Upstream, Growth> sizes_;
    stream_bump<platform>                               books_;
};

} // namespace detail
} // namespace vram
