// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_bump` is the bump allocator of `monotonic`: it orders streams and unwinds allocations.

#include <vram/base/error.hpp> // error_kind
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/order/core/availability.hpp>
#include <vram/pool/core/bump_chunk.hpp>
#include <vram/pool/core/bump_stack.hpp>
#include <vram/pool/core/bump_uses.hpp>
#include <vram/pool/event_policy.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The memory of a `monotonic`, and the timelines (records of progress) of the streams that use it.
/// Does not call the upstream. Functions with a `guard` parameter release the lock while the host
/// waits.
///
/// Failure   Errors of the platform and `std::bad_alloc` are rethrown; nothing has changed then.
/// Threads   One thread at a time, which holds the resource's lock.
template <class Platform>
class stream_bump {
public:
    using stream = typename Platform::stream;
    using guard  = typename platform_lock<Platform>::guard;
    using chunk  = bump_chunk<stream>;

    /// A request for memory. `on`: the stream that will use the memory. If `on` is null, any stream
    /// must be able to use the memory without a wait.
    struct request {
        std::size_t   bytes;
        std::size_t   alignment;
        stream const* on;
    };

    stream_bump(event_policy events, bool graphs) noexcept : uses_{events, graphs} {}

    /// Allocates a block from the reserved memory. If other streams may still use the memory, the
    /// stream of `r` (null: the host) waits for them. Returns null if no chunk has usable room.
    [[nodiscard]] void* take(request const& r, guard& held) {
        uses_.forget_ended();
        timeline* const mine     = r.on != nullptr ? &uses_.timelines().of(*r.on) : nullptr;
        bool const      in_graph = mine != nullptr && uses_.in_graph(*r.on);
        if (mine != nullptr && !in_graph && !stack().empty()) {
            chunk&               c     = stack().current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            if (start != 0 && c.try_take(start, r.bytes, mine->id(), mine->slot())) {
                stack().live_at_top() += r.bytes;
                return reinterpret_cast<void*>(start);
            }
        }
        uses_.timelines().readmit();
        bool captured = in_graph;
        while (!stack().empty()) {
            chunk&               c     = stack().current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            auto                 price = availability::unavailable;
            tags                 costly;
            if (start != 0) {
                price = uses_.price_of(c, start + r.bytes, mine, captured, costly);
                if (price == availability::ready) {
                    c.reserve();
                    return hand_out(c, start, r, mine, in_graph);
                }
            }
            if (price == availability::unavailable) {
                if (!stack().use_next(r.bytes, r.alignment)) { return nullptr; }
                continue;
            }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                // The requesting stream is being captured, and must not wait. Repeats the search,
                // now for memory that needs no wait.
                captured = true;
                continue;
            }
            timeline const* const held_up = mine != nullptr
                                                ? uses_.timelines().order(*mine, costly)
                                                : uses_.timelines().finish(costly, held);
            if (held_up != nullptr) { uses_.exclude_or_retain(*held_up); }
            // During the wait, another thread may have allocated the memory, or added a stream that
            // uses it. The loop therefore searches again.
        }
        return nullptr;
    }

    /// Adds an empty chunk that any stream may use without a wait.
    void add(chunk fresh) { stack().add(std::move(fresh)); }
    /// Adds a chunk that only the stream `order` (null: any) may use without a wait, and allocates
    /// `r` from that chunk.
    void* add(chunk fresh, stream const* order, request const& r) {
        timeline* const mine     = r.on != nullptr ? &uses_.timelines().of(*r.on) : nullptr;
        bool const      in_graph = mine != nullptr && uses_.in_graph(*r.on);
        fresh.reserve();
        if (order != nullptr) {
            fresh.wait_for({fresh.begin(), fresh.end(), mine->epoch_of_free(), mine->slot()});
        }
        chunk& c = stack().add_current(std::move(fresh));
        if (order != nullptr && uses_.eager()) { mine->try_record(); }
        return hand_out(c, c.begin(), r, mine, in_graph);
    }

    /// The result of `give`, which frees a block.
    enum class freed {
        done,     ///< the block now counts as free
        no_block, ///< invalid free: no live block can have this address and size
        /// The stream that frees the block can neither be recorded as a user of the block nor
        /// waited for. The block stays live.
        lost,
    };
    /// Counts the `bytes` bytes at `p` as free. Their memory is reused only after `unwind`. The
    /// stream `on` (null: no stream) may still use them. Returns `done`, or the reason of a
    /// failure.
    [[nodiscard]] freed give(void* p, std::size_t bytes, stream const* on) noexcept {
        auto const   at = reinterpret_cast<std::uintptr_t>(p);
        chunk* const c  = stack().used_around(p);
        if (c == nullptr || bytes == 0 || bytes > c->top() - at) { return freed::no_block; }
        std::size_t& live = stack().live_around(*c, at);
        if (bytes > live) { return freed::no_block; }
        if (on != nullptr && !uses_.record_use(*c, at, at + bytes, *on)) { return freed::lost; }
        live -= bytes;
        return freed::done;
    }
    /// Finds out why a free was rejected, if its address is in a chunk. The kind of the error
    /// becomes `wrong_size` if the address is allocated, but the size is 0 or reaches beyond the
    /// allocated part of the chunk. Otherwise the kind becomes `double_free`.
    [[gnu::cold]] void explain_refusal(refused_free& e) noexcept {
        if (!stack().owns(e.what.pointer)) { return; }
        chunk const* const c  = stack().used_around(e.what.pointer);
        auto const         at = reinterpret_cast<std::uintptr_t>(e.what.pointer);
        e.found_free();
        if (c != nullptr && (e.what.bytes == 0 || e.what.bytes > c->top() - at)) {
            e.what.kind = error_kind::wrong_size;
        }
    }

    /// Frees the blocks allocated since the mark with the number `serial`, or all blocks if it is
    /// 0. `on`: the stream that may still use them, or null. Calls `visit(address, bytes)` for the
    /// freed range of each chunk. Returns the number of live bytes that were freed. If this use by
    /// `on` can be neither recorded nor waited for, frees nothing and returns 0.
    template <class Visit>
    std::size_t unwind(std::uint64_t serial, stream const* on, Visit const& visit) noexcept {
        if (on != nullptr && !uses_.record_unwind(serial, *on)) { return 0; }
        stack().each_since(serial, [&](chunk& c, std::uintptr_t to) {
            if (to != c.top()) { visit(reinterpret_cast<void*>(to), c.top() - to); }
        });
        stack().each_since(serial, [&](chunk& c, std::uintptr_t to) {
            c.unwind(to, [this](auto const& u) { return uses_.unwound(u); });
            if (uses_.eager()) { uses_.record_events(c); }
        });
        return stack().go_back(serial);
    }

    /// Removes and returns a chunk without an allocated block. If streams may still use all such
    /// chunks, the host waits first. If no chunk can be removed, returns a chunk of 0 bytes.
    [[nodiscard]] chunk remove_idle(guard& held) {
        uses_.forget_ended();
        uses_.timelines().readmit();
        for (;;) {
            // Pending uses, by streams, of one chunk without an allocated block. If streams may
            // still use all such chunks, the host waits for these uses. Empty if no wait helps.
            tags              awaited;
            std::size_t const first_idle = stack().first_idle();
            for (std::size_t i = stack().chunks().size(); i-- != first_idle;) {
                chunk& c = stack().chunks()[i];
                c.drop([&](tag const& t) { return uses_.is_complete(t); });
                if (c.waits().size() == 0) { return stack().take_idle(i); }
                tags costly;
                if (awaited.empty() && uses_.price_of(c, c.end(), nullptr, false, costly) !=
                                           availability::unavailable) {
                    awaited = costly;
                }
            }
            if (awaited.empty()) { return {nullptr, 0, 0}; }
            timeline const* const captured = uses_.timelines().finish(awaited, held);
            if (captured != nullptr) { uses_.exclude_or_retain(*captured); }
        } // other threads may have allocated during the wait, so search again
    }
    /// Called when the resource ends: makes the host wait until no stream uses freed memory.
    void wait_for_all(guard& held) noexcept { uses_.timelines().wait_for_all(held); }

    /// `uses` returns the record of the chunks, the marks (positions for `unwind`) and the streams.
    /// `stack` returns the part of this record with the chunks and the marks.
    [[nodiscard]] bump_uses<Platform>&       uses() noexcept { return uses_; }
    [[nodiscard]] bump_uses<Platform> const& uses() const noexcept { return uses_; }
    [[nodiscard]] bump_stack<stream>&        stack() noexcept { return uses_.stack(); }
    [[nodiscard]] bump_stack<stream> const&  stack() const noexcept { return uses_.stack(); }

private:
    using user     = typename chunk::user;
    using timeline = typename bump_uses<Platform>::timeline;

    void* hand_out(chunk& c, std::uintptr_t start, request const& r, timeline* mine,
                   bool in_graph) noexcept {
        if (mine != nullptr) {
            if (in_graph) { (void)mine->epoch_of_captured_free(); }
            user const by{*r.on, mine->id(), mine->slot()};
            c.take(start, r.bytes, &by, in_graph);
        } else {
            c.take(start, r.bytes, nullptr, false);
        }
        stack().live_at_top() += r.bytes;
        return reinterpret_cast<void*>(start);
    }

    bump_uses<Platform> uses_;
};

} // namespace detail
} // namespace vram
