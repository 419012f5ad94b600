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

/// `std::pmr::monotonic_buffer_resource` for device memory and streams: allocates with a bump
/// pointer, for one step of a program that frees all its memory together.
///
///     monotonic<stream_ordered<cuda_resource>> step;
///     auto const here = step.mark();      // ... allocate ...
///     step.unwind(here, stream);          // frees all blocks since then
///     step.reset(stream);                 // frees all blocks
///
/// `deallocate` only counts bytes. Memory is reused after `unwind` and `reset`, which free many
/// blocks at once; do not call `deallocate` for a block that was unwound. Chunks are kept until
/// `trim`, `release` or the destructor, which unwinds live blocks. Bookkeeping is never written
/// into the managed memory.
///
/// Failure   Before a request is refused with `out_of_memory`, the host waits for streams that use
///           free chunks, and returns these chunks to the upstream, except during a capture of the
///           request's stream. Unwinding to a mark that was itself unwound is a broken contract. A
///           free of a foreign pointer, of unwound memory, of a size beyond the end of the used
///           memory, or of more bytes than are live is reported with the caller's line and changes
///           nothing. Blocks have no descriptors (records in host memory), so these mistakes are
///           not detected: a pointer into a block, a size that is too small, and a double free
///           while other blocks are live.
/// Threads   Any number of threads may call concurrently. `unwind` and `reset` also free the blocks
///           of other threads. The lock is not held during calls of the upstream or waits on the
///           host, except waits for a stream on which no event can be recorded.
/// Streams   Unwound memory of a chunk is ready for another stream after the work of every stream
///           that allocated or freed blocks there, and of the stream that unwound it. If another
///           stream used blocks there, but neither allocated nor freed one, the caller must make
///           the stream that unwinds wait for that stream. A stream waits at its first allocation
///           that needs the memory, once for each other stream. It does not wait for its own work.
///           If `graphs` is set, a block that was allocated or freed during a capture is kept for
///           the graph after it was unwound: until `forget_captures`, only captures of the
///           same stream reuse it. A `cuda_stream` or `sim_stream` may be destroyed at any time. A
///           raw `cudaStream_t` must be retired before it is destroyed. With `event_policy::eager`,
///           it is enough that it exists until its blocks are unwound.
/// Cost      An allocation is an addition and one or two comparisons as long as one stream
///           allocates. It then needs no event, no host allocation, and no call of the platform,
///           except the query of the id of a default stream, and with `graphs` that of the capture
///           status. Unwinding is linear in the number of chunks and of the streams that use them.
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
    /// that is not 0. Throws the exceptions of the upstream.
    explicit monotonic(Upstream upstream, pool_options options = {}, Growth growth = {})
        : core_{std::move(upstream), options, std::move(growth)} {}
    /// A size alone does not compile: the error message names the options.
    template <detail::size_alone<Upstream> Size>
    explicit monotonic(Size) : monotonic{detail::refuse_size(*this)} {}
    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
    template <std::same_as<monotonic> Same>
    monotonic(Same& other) : monotonic{detail::refuse_copy(other)} {}
    template <std::same_as<monotonic> Same>
    monotonic& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves a `monotonic` that no other thread is using and that no handle (`resource_ref`) refers
    /// to. Live memory keeps its address.
    monotonic(monotonic&&) = default;
    monotonic& operator=(monotonic&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    = default;
    /// Makes the host wait for the streams that may still use the memory, and returns every chunk
    /// to the upstream. Live blocks are freed without a report.
    ~monotonic() = default;

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that the line of the caller (`at`) costs nothing unless there is an observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at, [&] { return core_.get_on(s, bytes, alignment); });
    }
    /// Allocates a block that any stream may use without a wait; returns null for 0 bytes. If
    /// streams still use that memory, the host waits for them first.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.template get<true>(bytes, alignment, nullptr); });
    }

    /// Allocates as `allocate` does, but never throws. Returns null if the request is refused or
    /// host memory is lacking, and also after any other error, which is reported.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at, [&] { return core_.try_get(bytes, alignment, &s); });
    }
    /// Allocates as `allocate_sync` does, but never throws. Returns null if the request is refused
    /// or host memory is lacking, and also after any other error, which is reported.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.try_get(bytes, alignment, nullptr); });
    }

    /// Counts a block as free. Its memory is reused after `unwind` or `reset`. Work that the stream
    /// `s` gets until then may use the block. An invalid free is reported with the line `at` and
    /// changes nothing.
    // Inlined, so that the line of the caller (`at`) costs nothing unless the free is invalid.
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

    /// Returns a mark of the current position for `unwind`. If nothing was allocated since the last
    /// mark, returns that one. A mark is valid until an earlier position is unwound. As long as it
    /// is valid, `trim` keeps all chunks up to the one in use when it was created.
    [[nodiscard]] monotonic_mark mark() {
        return monotonic_mark{core_.mark(monotonic_mark::next().serial_)};
    }
    /// Frees all blocks allocated since the mark `to`, also those that `deallocate` counted as
    /// free. Earlier work of the stream `s`, and of the streams that allocated or freed these
    /// blocks, may still use them. The mark stays valid. If the use by `s` can be neither recorded
    /// nor waited for, reports a leak and frees nothing.
    void unwind(monotonic_mark to, stream s) { core_.unwind(to.serial_, &s); }
    /// Frees all blocks allocated since the mark `to`, as `unwind` does. The caller promises that
    /// only streams that allocated or freed some of these blocks may still use them.
    void unwind_sync(monotonic_mark to) { core_.unwind(to.serial_, nullptr); }
    /// Frees all blocks. Earlier work of the stream `s`, and of streams that allocated or freed
    /// some of them, may still use them. Chunks are kept, and every mark becomes invalid. If the
    /// use by `s` can be neither recorded nor waited for, reports a leak and frees nothing.
    void reset(stream s) noexcept { core_.reset(&s); }
    /// Frees all blocks. The caller promises that only streams that allocated or freed some of the
    /// blocks may still use them. Chunks are kept, and every mark becomes invalid.
    void reset_sync() noexcept { core_.reset(nullptr); }
    /// Frees all blocks as `reset_sync` does, then calls `trim`: returns the chunks to the
    /// upstream. The host waits for streams that may still use them. Returns the result of `trim`.
    std::size_t release() {
        reset_sync();
        return trim();
    }

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const { return core_.owns(p); }
    /// Returns the usage. `live` and `requested` count bytes that were neither freed nor unwound.
    [[nodiscard]] memory_usage usage() const { return core_.usage(); }
    /// Returns the free memory above the bump pointer and in unused chunks. Memory of freed blocks
    /// below the bump pointer counts only once it is unwound. Cost: a look at every chunk.
    [[nodiscard]] free_pieces free_memory() const { return core_.free_memory(); }
    /// Sets the peaks to the bytes that are live and reserved now. Returns the usage before.
    memory_usage reset_peaks() noexcept { return core_.reset_peaks(); }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept { core_.raise_peaks(before); }
    /// Returns empty chunks (without an allocated block or a mark) to the upstream until at most
    /// `keep` unused bytes are reserved: first chunks that no stream uses, then others, after the
    /// host has waited for their streams. Chunks kept for a captured graph stay. Then trims the
    /// upstream. Returns the larger of two numbers: the bytes returned to the upstream, and those
    /// that the upstream returned.
    std::size_t trim(std::size_t keep = 0) { return core_.trim(keep); }
    /// Trims the upstream without a wait, and returns the bytes that the upstream returned. The
    /// chunks of this resource are kept.
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
    /// To be called before the stream `s` is destroyed; required for a raw `cudaStream_t`. Only
    /// work that `s` has now may still use its blocks: records an event behind that work, and
    /// forgets the handle. The host waits only if no event can be recorded. Errors of the platform
    /// are thrown. Cost: a look at every stream of every chunk.
    void retire(stream s) { core_.retire(s); }
    /// States that no captured graph that used this resource will be launched again, and that no
    /// capture uses it now. The memory that is retained for these graphs becomes free for every
    /// stream. If there is any, the host first waits for the devices of all streams that used this
    /// resource, because the last launch may still be running. Launches on streams of other devices
    /// must be complete. If a wait fails, its error is thrown, and the memory stays retained.
    void forget_captures() { core_.forget_captures(); }
    /// Returns the device of the memory.
    [[nodiscard]] auto device() const
        requires located_resource<Upstream>
    {
        return core_.upstream().device();
    }
    /// Returns the observer of the upstream.
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
/// Puts a `monotonic` over the resource before it: `source | with::monotonic`, or with options
/// `source | with::monotonic({.initial_size = 1_GiB})`.
inline constexpr word<vram::monotonic, pool_options> monotonic{};
} // namespace with

} // namespace vram
