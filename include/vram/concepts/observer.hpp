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
    allocated,    ///< a block was allocated; sent before the allocation returns it
    freed,        ///< a block is about to be freed; the resource has not reused it yet
    free_refused, ///< the resource rejected the free that an earlier event `freed` announced
    all_freed,    ///< all blocks in the range are free (`reset` or `unwind` of `monotonic`)
    /// The resource got a chunk, in which it will allocate blocks. A chunk that grows sends one
    /// event per part; when it returns to the upstream, one `chunk_removed` covers all parts.
    chunk_added,
    chunk_removed,  ///< a chunk is about to return to the upstream; blocks live in it are leaks
    pages_mapped,   ///< physical memory was mapped to a range of a chunk
    pages_unmapped, ///< physical memory of a range of a chunk was unmapped
    /// The resource made a stream wait for freed memory or, if `stream` is empty, the host waited.
    /// `memory` is the block allocated after the wait, or null.
    stream_waited,
    /// Sent by `stream_ordered` after `freed`, before the block returns to the upstream: no stream
    /// uses the block any more.
    free_completed,
    refused, ///< a request was refused: by a pool, `stream_ordered`, or the limit of `limiting`
    retried, ///< a refused request is tried again, because a retry policy returned true
    marked   ///< the program set a mark with the text `name`
};

/// One event in a resource. `memory` is a block, a chunk (memory from the upstream) or a range of a
/// chunk; null if the event concerns no memory. `bytes` is its size, for blocks as the caller
/// requested it.
///
/// After `freed` for an invalid free, `free_refused` follows, perhaps from another thread.
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
    /// Stream that was passed to the resource in the call that caused the event. Empty if there was
    /// none, and for events without a stream, such as a wait of the host.
    std::optional<Stream> stream{};
    call_site             at{}; ///< line of the program that called the resource, if known
    /// For `allocated`: true if any stream may use the block at once. Otherwise other streams must
    /// first wait for `stream`.
    bool any_stream = false;
    /// For `freed`: true if the memory is not allocated again before the event `all_freed`.
    /// Captured graphs may use it until then.
    bool until_reset = false;
};

/// An object that resources notify of events. `observe` must not throw and must not call the
/// resource. Several threads may call it at the same time. `freed` arrives before the memory is
/// allocated again.
///
/// Optional: `forget_captures()` is called before memory of captured graphs is returned;
/// `shares_with(other)` returns true for a copy with shared state, so that only one of both is
/// notified.
template <class O, class Stream>
concept observer = requires(O& o, memory_event<Stream> const& e) {
    { o.observe(e) } noexcept;
};

/// An observer that can decline events: resources do not send it events of a kind for which
/// `skips(kind)` returns true. If the result changes during a request, events of that request may
/// still follow the old one. On an `observing_platform` no event is skipped.
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

/// A platform that observes all resources on it. A resource calls `begin_resource_call` and
/// `end_resource_call` around its work, which the platform then attributes to the resource.
/// `begin_program_call` and `end_program_call` enclose code of the program called within, such as
/// an observer; the first returns a state (such as the depth of nested calls) that the second
/// restores.
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
