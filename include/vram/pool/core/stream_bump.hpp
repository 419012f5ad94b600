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

/// The memory of a `monotonic`, and the timelines (records of progress) of its streams. Does not
/// call the upstream. Functions that take a lock guard are called with the lock held. Those that
/// wait on the host unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the resource's lock.
/// Cost      The cost is that of `bump_chunk` and `stream_timelines`.
template <class Platform>
class stream_bump {
public:
    using stream = typename Platform::stream;
    using guard  = typename platform_lock<Platform>::guard;
    using chunk  = bump_chunk<stream>;

    /// A request. `on` is the stream that uses the memory first, or null if any stream must be able
    /// to use it without a wait.
    struct request {
        std::size_t   bytes;
        std::size_t   alignment;
        stream const* on;
    };

    stream_bump(event_policy events, bool graphs) noexcept : uses_{events, graphs} {}

    /// Allocates a block from the reserved memory, and makes its stream (or the host, for a request
    /// without a stream) wait for the streams that used the memory before, if needed. Returns null
    /// if there is no room.
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
                // The request's stream is being captured and must not wait: the loop starts again,
                // and accepts only memory that needs no wait (`captured`).
                captured = true;
                continue;
            }
            timeline const* const held_up = mine != nullptr
                                                ? uses_.timelines().order(*mine, costly)
                                                : uses_.timelines().finish(costly, held);
            if (held_up != nullptr) { uses_.exclude_or_retain(*held_up); }
            // The loop starts again: one more stream may still use the memory, a capture may make
            // it unavailable, or another thread may have allocated it while the host waited.
        }
        return nullptr;
    }

    /// Adds an empty chunk that any stream may use without a wait.
    void add(chunk fresh) { stack().add(std::move(fresh)); }
    /// Adds a chunk that only the stream `order` (null: any stream) may use without a wait, and
    /// allocates the request `r` from the chunk. If `order` is not null, `r.on` must be that
    /// stream.
    void* add(chunk fresh, stream const* order, request const& r) {
        timeline* const mine     = r.on != nullptr ? &uses_.timelines().of(*r.on) : nullptr;
        bool const      in_graph = mine != nullptr && uses_.in_graph(*r.on);
        fresh.reserve();
        if (order != nullptr) { // a pending use by `order`: other streams must wait for `order`
            fresh.wait_for({fresh.begin(), fresh.end(), mine->epoch_of_free(), mine->slot()});
        }
        chunk& c = stack().add_current(std::move(fresh));
        if (order != nullptr && uses_.eager()) { mine->try_record(); }
        return hand_out(c, c.begin(), r, mine, in_graph);
    }

    /// The result of `give`, which frees a block.
    enum class freed {
        done,     ///< the block counts as free
        no_block, ///< there is no such block, and nothing has changed
        /// The block stays live, because the stream on which it was freed may still use it, and
        /// this could be neither recorded nor waited for.
        lost,
    };
    /// Counts the `bytes` at `p` as free; they are reused after `unwind`. If `on` is not null,
    /// records the stream `on` as a user of the block: any work that it gets before the unwind may
    /// use the memory, so afterwards other streams wait for that work.
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
    /// Completes the error of a rejected free at an address in a chunk. Blocks have no descriptors
    /// here, so the address counts as free memory. If a block of the stated size would end behind
    /// the used memory of the chunk, the size counts as wrong.
    [[gnu::cold]] void explain_refusal(refused_free& e) noexcept {
        if (!stack().owns(e.what.pointer)) { return; }
        chunk const* const c  = stack().used_around(e.what.pointer);
        auto const         at = reinterpret_cast<std::uintptr_t>(e.what.pointer);
        e.found_free();
        if (c != nullptr && (e.what.bytes == 0 || e.what.bytes > c->top() - at)) {
            e.what.kind = error_kind::wrong_size;
        }
    }

    /// Frees all blocks allocated since the mark with the number `serial` (0: all blocks and all
    /// marks). Each stream that allocated or freed some of them, and the stream `on` (null: no
    /// other stream), may still use them. Returns the bytes that were live. If the use by `on` can
    /// be neither recorded nor waited for, reports that, frees nothing and returns 0. Calls
    /// `visit(address, bytes)` for each range of blocks, before any of them is free.
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

    /// Removes and returns an idle chunk (without an allocated block) that no stream uses any more.
    /// If streams may still use every idle chunk, the host waits for the streams of one, with the
    /// lock `held` released. Returns a chunk of 0 bytes if there is no idle chunk, or if the host
    /// can wait for none, because captures or captured graphs keep them.
    [[nodiscard]] chunk remove_idle(guard& held) {
        uses_.forget_ended();
        uses_.timelines().readmit();
        for (;;) {
            // The pending use (by a stream) of an idle chunk for which the host can wait; empty as
            // long as no such chunk was found.
            tags              almost;
            std::size_t const first_idle = stack().first_idle();
            for (std::size_t i = stack().chunks().size(); i-- != first_idle;) {
                chunk& c = stack().chunks()[i];
                c.drop([&](tag const& t) { return uses_.timelines().is_complete(t); });
                if (c.waits().size() == 0) { return stack().take_idle(i); }
                tags costly;
                if (almost.empty() && uses_.price_of(c, c.end(), nullptr, false, costly) !=
                                          availability::unavailable) {
                    almost = costly;
                }
            }
            if (almost.empty()) { return {nullptr, 0, 0}; }
            timeline const* const captured = uses_.timelines().finish(almost, held);
            if (captured != nullptr) { uses_.exclude_or_retain(*captured); }
        } // other threads may have allocated during the wait, so search again
    }
    /// Called at the end of the resource: makes the host wait for all streams.
    void wait_for_all(guard& held) noexcept { uses_.timelines().wait_for_all(held); }

    /// `uses` returns the chunks, the marks, and the records of the streams that may use the
    /// memory. `stack` returns the chunks and the marks alone.
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
