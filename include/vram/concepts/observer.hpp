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
    all_freed,    ///< all blocks in a range were freed, by `reset` or `unwind` of a `monotonic`
    /// The resource got a chunk, from which it will allocate blocks. If the chunk grows later, the
    /// event is sent again for the added part. One event `chunk_removed` covers all parts.
    chunk_added,
    chunk_removed,  ///< a chunk is about to return to the upstream; live blocks in it are leaks
    pages_mapped,   ///< physical memory was mapped to a range of a chunk
    pages_unmapped, ///< physical memory of a range of a chunk was unmapped
    /// The resource made a stream wait for freed memory. If `memory_event::stream` is empty, a host
    /// thread waited instead. `memory_event::memory` is the block allocated after the wait, or
    /// null.
    stream_waited,
    /// No stream uses a freed block any more, and the block is about to return to the upstream. The
    /// layer `stream_ordered` sends this event after `freed`.
    free_completed,
    refused, ///< a request was refused: by a pool, `stream_ordered`, or the limit of `limiting`
    retried, ///< a refused request is tried again, because a retry policy returned true
    marked   ///< the program set a mark with the text `name`
};

/// One event in a resource. `memory` is the address of a block, of a chunk (memory from the
/// upstream) or of a range of a chunk. It is null if the event concerns no memory.
///
/// A resource may reject a free after it sent the event `freed`. It then sends the event
/// `free_refused`, perhaps from another thread.
template <class Stream>
struct memory_event {
    /// The kind of the event.
    memory_event_kind kind{};
    /// Name of the resource's class, such as "pool". For the event `marked`, the text of the mark.
    char const* name = "";
    /// Address that identifies the resource until it is moved.
    void const* resource = nullptr;
    void*       memory   = nullptr;
    /// For a block or a request: the size that the caller requested. For a chunk or a range of a
    /// chunk: the size of that memory.
    std::size_t bytes = 0;
    /// Stream that was passed to the resource in the call that caused the event. Empty if there was
    /// none, and for events without a stream, such as a wait of the host.
    std::optional<Stream> stream{};
    call_site             at{}; ///< line of the program that called the resource, if known
    /// For an event `allocated`: true if any stream may use the block at once. If false, a stream
    /// other than `stream` must first wait for the work of `stream`.
    bool any_stream = false;
    /// For an event `freed`: true if the resource allocates the memory again only after an event
    /// `all_freed`. Until then, captured graphs may use the memory.
    bool until_reset = false;
};

/// An object that resources notify of events. `observe` must not throw and must not call the
/// resource. Several threads may call it at the same time. A resource sends the event `freed`
/// before it allocates the memory again.
///
/// An observer may have two more functions. A resource calls `forget_captures()` before it makes
/// memory of captured graphs available again. `shares_with(other)` returns true if `other` is a
/// copy with the same state. Only one of such copies is notified of an event.
template <class O, class Stream>
concept observer = requires(O& o, memory_event<Stream> const& e) {
    { o.observe(e) } noexcept;
};

/// An observer that can decline events. If `skips(kind)` returns true, resources do not send it
/// events of that kind. If the result changes during a request, the events of that request may
/// still follow the earlier result. On an `observing_platform`, resources send all events.
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

/// A platform that observes all resources on it. A resource calls `begin_resource_call` before its
/// work and `end_resource_call` after it. The platform so knows which calls are the resource's.
/// Before a resource calls code of the program, such as an observer, it calls `begin_program_call`.
/// Afterwards it passes the result of that call to `end_program_call`.
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

/// A resource with an observer: the layer `observed`, and each layer and pool with an `observed`
/// among its upstreams.
template <class R>
concept observed_resource = requires(R& r) { r.observer(); };

} // namespace vram
