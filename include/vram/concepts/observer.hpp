// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `observer` is an object that resources notify of each allocation, free and change of a chunk.

#include <vram/base/call_site.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <optional> // optional

namespace vram {

/// The kinds of `memory_event`.
enum class memory_event_kind : unsigned char {
    allocated,      ///< a block was allocated; sent before the allocation returns it
    freed,          ///< a block is about to be freed; the resource has not reused it yet
    free_refused,   ///< the free of an earlier event `freed` was invalid, and freed nothing
    all_freed,      ///< all blocks in the range are free (`reset` or `unwind` of `monotonic`)
    chunk_added,    ///< the resource got a chunk, and will allocate blocks in it
    chunk_removed,  ///< the resource is about to return a chunk to its upstream
    pages_mapped,   ///< physical memory was mapped to a range of a chunk
    pages_unmapped, ///< physical memory of a range of a chunk was unmapped
    /// The resource made the stream of this event wait for streams that may still access freed
    /// memory. If the event has no stream, the host waited instead. `memory` is the block that the
    /// request then got. It is null if the request was refused, or if the call was no request, such
    /// as `trim`.
    stream_waited,
    /// After `freed`: no stream uses the block any more. `stream_ordered` sends this for each block
    /// before it returns the block to its upstream (`chunk_removed`). Pools do not send it.
    free_completed,
    refused, ///< a request was refused: by a pool, `stream_ordered`, or the limit of `limiting`
    retried, ///< a refused request is tried again, because a retry policy returned true
    marked   ///< the program set a mark with the text `name`
};

/// One event in a resource. `memory` is a block for `allocated`, `freed`, `free_refused`,
/// `free_completed` and `stream_waited`. For other kinds it is a chunk (memory from the upstream,
/// in which the resource allocates blocks) or a range of addresses in one. It is null if the event
/// concerns no memory. `bytes` is the size that the caller requested, or that of the chunk or
/// range.
///
/// A chunk is added before the first block in it is allocated. It is removed after the last block
/// in it was freed, or when the resource ends: blocks that are live at that time are leaks, and
/// have no event `freed`. If the upstream notifies an observer too, it allocates a chunk before the
/// chunk is added here, and frees it after the chunk is removed here. Adjacent chunks of one
/// resource count as one: a chunk of virtual memory is added part by part as it grows, and removed
/// at once. `stream_ordered` passes each request to its upstream, and `binned` each large one; then
/// a chunk of the size of the block is added.
///
/// `freed` is also sent for a wrong free (no live block, or another size or alignment), and
/// `free_refused` then follows, from the same thread or another one. If a block has several events
/// `freed`, for example because two threads free it, it is free if it has more events `freed` than
/// `free_refused` since it was allocated.
template <class Stream>
struct memory_event {
    /// The kind of the event.
    memory_event_kind kind{};
    /// Name of the resource's class, such as "pool". For the event `marked`, the text of the mark.
    char const* name = "";
    /// Address that identifies the resource until it is moved.
    void const* resource = nullptr;
    void*       memory   = nullptr;
    /// The size that the caller requested; for chunks and pages, their size.
    std::size_t bytes = 0;
    /// Stream of the resource's call that caused the event; empty if that call takes no stream.
    std::optional<Stream> stream{};
    call_site             at{}; ///< line of the program that called the resource, if known
    /// For `allocated`: true if any stream may use the block without a wait, as with
    /// `stream_ordered`. Otherwise streams other than `stream` must first wait for an event.
    bool any_stream = false;
    /// For `freed`: true if the resource does not allocate the memory again before it is reset
    /// (event `all_freed`), as with `monotonic`. Captured graphs may use the memory until then.
    bool until_reset = false;
};

/// An object that resources notify of events. `observe` must not throw, and must not call the
/// resource. Several threads may call it at the same time. Of one block, the events arrive in
/// order: `freed` arrives before the resource can allocate the memory again. If the observer has a
/// function `forget_captures()`, the layer `observed` calls it before its own `forget_captures`
/// returns memory of captured graphs.
///
/// A resource over two upstreams with observers (`fallback`, `segregated`) notifies both, but an
/// object only once, even if both upstreams refer to it, one of them perhaps by a base type: then
/// `observe` of the first upstream's type is called. An object that is given by two of its base
/// types counts as two observers. An observer whose copies share their state has a function
/// `bool shares_with(O const& other) const noexcept`, which returns true for a copy: only one of
/// the copies is then notified.
template <class O, class Stream>
concept observer = requires(O& o, memory_event<Stream> const& e) {
    { o.observe(e) } noexcept;
};

/// An observer that can decline events: while `skips(kind)` returns true, resources send the
/// observer no events of this kind. The result may change at any time: a resource calls `skips` at
/// the start of a request and again before each event. If `skips` returns true at the start for
/// each of `allocated`, `refused` and `stream_waited`, the request sends no event of the last two
/// kinds later, even if `skips` then returns false for them; if a second observer (of `fallback` or
/// `segregated`) does not skip all three, it can. On an `observing_platform`, such as a simulated
/// one, no event is skipped.
///
///     struct refusals {
///         bool skips(memory_event_kind k) const noexcept {
///             return k != memory_event_kind::refused;
///         }
///         ...
///     };
///     static_assert(skipping_observer<refusals>);
template <class O>
concept skipping_observer = requires(O const& o, memory_event_kind k) {
    { o.skips(k) } noexcept -> std::same_as<bool>;
};

/// A platform that observes all resources on it, with a static function `observe`. A resource calls
/// the platform's `begin_resource_call` before, and `end_resource_call` after, everything that it
/// does in one call of the program. So the platform can tell a resource's calls from those of the
/// program. If code of the program (a retry policy or an observer) runs within such a call, the
/// resource calls `begin_program_call` before it, and `end_program_call` after it with the result.
///
///     struct my_platform : cuda_platform {
///         static void observe(memory_event<stream> const& e) noexcept;
///         static void begin_resource_call() noexcept;   // calls may be nested
///         static void end_resource_call() noexcept;
///         static unsigned begin_program_call() noexcept;
///         static void end_program_call(unsigned outer) noexcept;
///     };
///     static_assert(observing_platform<my_platform>);
template <class P>
concept observing_platform = requires(memory_event<typename P::stream> const& e, unsigned outer) {
    { P::observe(e) } noexcept;
    { P::begin_resource_call() } noexcept;
    { P::end_resource_call() } noexcept;
    { P::begin_program_call() } noexcept -> std::same_as<unsigned>;
    { P::end_program_call(outer) } noexcept;
};

/// A resource with an observer: the layer `observed`, and each layer and pool above it.
template <class R>
concept observed_resource = requires(R& r) { r.observer(); };

} // namespace vram
