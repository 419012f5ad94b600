// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic` allocates from chunks with a bump pointer, and frees everything at once.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/core/observation.hpp>
#include <vram/concepts/growth.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind, observed_resource
#include <vram/concepts/powers.hpp>   // fallible_resource, located_resource
#include <vram/layer/with.hpp>        // with::word
#include <vram/pool/core/monotonic_core.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/pool/monotonic_mark.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // default_initializable, assignable_from
#include <cstddef>
#include <utility>

namespace vram {

/// Allocates with a bump pointer, for a step of a program that frees all its memory together:
/// `std::pmr::monotonic_buffer_resource` for streams. `deallocate` only counts bytes; memory is
/// reused after `unwind` or `reset`.
///
///     monotonic<stream_ordered<cuda_resource>> step;
///     auto const here = step.mark();      // ... allocate ...
///     step.unwind(here, stream);          // frees all blocks since then
///     step.reset(stream);                 // frees all blocks
///
/// Failure   A refused request throws `out_of_memory`. Not every invalid free is detected. If
///           `unwind` or `reset` can neither record its stream as a user of the memory nor wait for
///           it, a leak is reported, and no block is freed.
/// Threads   Any number of threads may call concurrently; `unwind` and `reset` free the blocks of
///           all threads.
/// Streams   Unwound memory is ordered after the streams that allocated, freed or unwound blocks;
///           the caller must order other users before the unwind.
/// Cost      An addition and two comparisons while one stream allocates.
template <class Upstream, growth Growth = geometric_growth>
class monotonic {
    using core = detail::monotonic_core<detail::checked_upstream<Upstream>, Growth>;

public:
    using upstream_type = Upstream;
    using platform      = typename Upstream::platform;
    using stream        = typename platform::stream;
    using properties    = typename Upstream::properties;

    /// Creates a resource over a default-constructed upstream.
    explicit monotonic(pool_options options = {})
        requires std::default_initializable<Upstream>
        : monotonic{Upstream{}, options} {}

    /// Creates a resource over `upstream`, and reserves a chunk of `options.initial_size` bytes if
    /// not 0. Throws the exceptions of the upstream.
    explicit monotonic(Upstream upstream, pool_options options = {}, Growth growth = {})
        : core_{std::move(upstream), options, std::move(growth)} {}
    /// A size as the only argument does not compile. The error message names the options to use.
    template <detail::size_alone<Upstream> Size>
    explicit monotonic(Size) : monotonic{detail::refuse_size(*this)} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<monotonic> Same>
    monotonic(Same& other) : monotonic{detail::refuse_copy(other)} {}
    template <std::same_as<monotonic> Same>
    monotonic& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves a resource that no other thread or handle (`resource_ref`) uses. Live memory keeps its
    /// address.
    monotonic(monotonic&&) = default;
    monotonic& operator=(monotonic&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    = default;
    /// Waits for the streams that may still use the memory, and returns every chunk to the
    /// upstream. Frees live blocks without a report. Does nothing at the end of the process.
    ~monotonic() = default;

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that `at` (the line of the caller) costs nothing if there is no observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at, [&] { return core_.get_on(s, bytes, alignment); });
    }
    /// Allocates a block that any stream may use without a wait. If necessary, the host waits until
    /// there is such a block. Returns null for 0 bytes.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.template get<true>(bytes, alignment, nullptr); });
    }

    /// Allocates as `allocate` does, but returns null instead of throwing. The error sink receives
    /// errors of this resource other than lack of memory.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at, [&] { return core_.try_get(bytes, alignment, &s); });
    }
    /// Allocates as `allocate_sync` does, but returns null instead of throwing. The error sink
    /// receives errors of this resource other than lack of memory.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.try_get(bytes, alignment, nullptr); });
    }

    /// Counts a block as free. Work of `s` may use the block until `unwind` or `reset` makes its
    /// memory available again.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        detail::observation<Upstream> const seen = core_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!core_.put_on(s, p, bytes)) [[unlikely]] {
            core_.refuse_on(s, p, bytes, alignment, at);
        }
    }
    /// Counts a block as free, which no stream uses. Its memory is reused after `unwind` or
    /// `reset`.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        detail::observation<Upstream> const seen = core_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!core_.put(p, bytes, nullptr)) [[unlikely]] {
            core_.refuse(p, bytes, alignment, nullptr, at);
        }
    }

    /// Returns a mark of the current position for `unwind`, valid until `reset` or an unwind to an
    /// earlier mark. `trim` keeps the chunks up to this position.
    [[nodiscard]] monotonic_mark mark() {
        return monotonic_mark{core_.mark([] { return monotonic_mark::next().serial_; })};
    }
    /// Frees all blocks since the mark `to`. Earlier work of `s`, and earlier work of streams that
    /// allocated or freed the blocks, may still use them.
    void unwind(monotonic_mark to, stream s, call_site at = call_site::current()) {
        core_.unwind(to.serial_, &s, at);
    }
    /// Frees all blocks since the mark `to`. Only streams that allocated or freed some of these
    /// blocks may still use them.
    void unwind_sync(monotonic_mark to, call_site at = call_site::current()) {
        core_.unwind(to.serial_, nullptr, at);
    }
    /// Frees all blocks and invalidates all marks. Earlier work of `s`, and of streams that
    /// allocated or freed blocks, may still use them.
    void reset(stream s, call_site at = call_site::current()) noexcept { core_.reset(&s, at); }
    /// Frees all blocks and invalidates all marks. Only streams that allocated or freed some of the
    /// blocks may still use them.
    void reset_sync(call_site at = call_site::current()) noexcept { core_.reset(nullptr, at); }
    /// Frees all blocks as `reset_sync` does, then returns the chunks to the upstream. The host may
    /// wait. Returns the number of bytes given back.
    std::size_t release(call_site at = call_site::current()) {
        reset_sync(at);
        return trim();
    }

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const { return core_.owns(p); }
    /// Returns the usage. `live` and `requested` count bytes that were neither freed nor unwound.
    [[nodiscard]] memory_usage usage() const { return core_.usage(); }
    /// Returns the free memory after the last block and in unused chunks. Freed blocks count only
    /// once they are unwound.
    [[nodiscard]] free_pieces free_memory() const { return core_.free_memory(); }
    /// Sets the peak of live bytes and the peak of reserved bytes to the present values. Returns
    /// the previous peaks; other members of the result may be 0.
    memory_usage reset_peaks() noexcept { return core_.reset_peaks(); }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept { core_.raise_peaks(before); }
    /// Returns unused chunks to the upstream while more than `keep` bytes are free, then trims the
    /// upstream. The host may wait. Returns the number of bytes given back.
    std::size_t trim(std::size_t keep = 0) { return core_.trim(keep); }
    /// Trims the upstream without a wait, and returns the bytes that the upstream returned.
    std::size_t trim_no_wait()
        requires promptly_trimmable_resource<Upstream>
    {
        return core_.upstream().trim_no_wait();
    }
    /// Returns `bytes`: a block takes the bytes of its request.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return bytes;
    }
    /// Must be called before a raw `cudaStream_t` is destroyed. A reuse of blocks that `s`
    /// allocated or freed then waits only for the work enqueued on `s` before this call.
    void retire(stream s) { core_.retire(s); }
    /// Frees the memory that this resource keeps for captured graphs. Graphs that use this memory
    /// must not be launched again, and no running capture may use this resource. If there may be
    /// such memory, the host first waits for the devices of this resource's streams.
    ///
    /// Failure   An error of a wait is thrown, and the memory stays kept.
    /// Streams   Launches of these graphs on any other device must be complete before the call.
    void forget_captures() { core_.forget_captures(); }
    /// Returns the device of the memory.
    [[nodiscard]] auto device() const
        requires detail::names_device<Upstream>
    {
        return core_.upstream().device();
    }
    /// Returns the observer of the upstream, which is also notified of the events of this resource.
    [[nodiscard]] decltype(auto) observer()
        requires observed_resource<Upstream>
    {
        return core_.upstream().observer();
    }
    [[nodiscard]] Upstream&       upstream() noexcept { return core_.upstream(); }
    [[nodiscard]] Upstream const& upstream() const noexcept { return core_.upstream(); }

    /// A resource is equal only to itself, because it has its own bookkeeping.
    friend bool operator==(monotonic const& a, monotonic const& b) noexcept { return &a == &b; }

private:
    core core_;
};

namespace with {
/// Creates a `monotonic` over the resource to the left of `|`: `source | with::monotonic`, or with
/// options `source | with::monotonic({.initial_size = 1_GiB})`.
inline constexpr word<vram::monotonic, pool_options> monotonic{};
} // namespace with

} // namespace vram
