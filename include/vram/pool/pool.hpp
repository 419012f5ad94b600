// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool` divides large chunks into blocks, and reuses freed blocks in stream order.

#include <vram/base/call_site.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/diagnosed.hpp>   // refuse_copy, checked_upstream
#include <vram/concepts/core/observation.hpp> // observation, resource_call
#include <vram/concepts/observer.hpp>         // memory_event_kind, observed_resource
#include <vram/concepts/powers.hpp>           // located_resource, fallible_resource
#include <vram/layer/with.hpp>                // with::word
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/default_growth.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/pool_options.hpp>

#include <concepts> // default_initializable, assignable_from, same_as
#include <cstddef>
#include <utility>

namespace vram {

/// A coalescing, stream-ordered suballocator over any resource: divides chunks into blocks of
/// multiples of 256 bytes.
///
///     pool<stream_ordered<cuda_resource>> memory;             // grows if needed
///     pool mr{cuda_resource{}, {.initial_size = 1_GiB}};      // reserves a gigabyte now
///
/// Failure   A refused request throws `out_of_memory`; an invalid free is reported.
/// Threads   Any number of threads may call concurrently.
/// Streams   The stream that freed a block may reuse it at once. Another stream waits for an event.
///           With `event_policy::lazy` a raw `cudaStream_t` must be retired before it is destroyed.
/// Cost      Constant if a free block fits; otherwise at most a walk over all blocks.
template <class Upstream, growth Growth = default_growth<Upstream>>
class pool {
    using core = detail::pool_core<detail::checked_upstream<Upstream>, Growth>;

public:
    using upstream_type = Upstream;
    using platform      = typename Upstream::platform;
    using stream        = typename platform::stream;
    using properties    = typename Upstream::properties;

    /// Creates a pool over a default-constructed upstream.
    explicit pool(pool_options options = {})
        requires std::default_initializable<Upstream>
        : pool{Upstream{}, options} {}

    /// Creates a pool over `upstream`. If `options.initial_size` is not 0, reserves a chunk of this
    /// size. Throws the exceptions of the upstream.
    explicit pool(Upstream upstream, pool_options options = {}, Growth growth = {})
        : core_{std::move(upstream), options, std::move(growth)} {}
    /// Rejects a size alone at compile time, with an error message that names the options.
    template <detail::size_alone<Upstream> Size>
    explicit pool(Size) : pool{detail::refuse_size(*this)} {}
    /// Rejects copies at compile time. The error message names alternatives: move, borrow, share.
    template <std::same_as<pool> Same>
    pool(Same& other) : pool{detail::refuse_copy(other)} {}
    template <std::same_as<pool> Same>
    pool& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves a pool that no other thread uses and to which no handle (`resource_ref`) refers. Live
    /// memory keeps its address.
    pool(pool&&) = default;
    pool& operator=(pool&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    = default;
    /// Waits for the streams that may still use the memory, reports live blocks as leaks, and
    /// returns every chunk to the upstream. Does nothing at the end of the process.
    ~pool() = default;

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that `at` (the line of the caller) costs nothing if there is no observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at, [&] { return core_.allocate(s, bytes, alignment); });
    }
    /// Returns memory that the stream `s` may use at once, or null if the pool has no such free
    /// memory. The pool does not grow. Throws `std::bad_alloc` and errors of the platform.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        void* const                         p    = core_.try_allocate_ready(s, bytes, alignment);
        seen.notify(memory_event_kind::allocated, p, bytes, &s, at);
        return p;
    }
    /// Allocates memory that any stream may use at once. If streams still use the memory, the host
    /// waits for these streams first.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.allocate_sync(bytes, alignment); });
    }

    /// Allocates as `allocate` does, but returns null instead of throwing. The error sink (function
    /// for errors that cannot be thrown) receives errors other than lack of memory.
    [[nodiscard, gnu::always_inline]] void*
    try_allocate(stream s, std::size_t bytes, std::size_t alignment = default_alignment,
                 call_site at = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, &s, at,
                             [&] { return core_.try_allocate(s, bytes, alignment); });
    }
    /// Allocates as `allocate_sync` does, but returns null instead of throwing. The error sink
    /// (function for errors that cannot be thrown) receives errors other than lack of memory.
    [[nodiscard, gnu::always_inline]] void*
    try_allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                      call_site at = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        detail::observation<Upstream> const seen = core_.seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return core_.try_allocate_sync(bytes, alignment); });
    }

    /// Frees a block. Only earlier work of the stream `s` may still use it. An invalid free is
    /// reported and frees nothing.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        detail::observation<Upstream> const seen = core_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!core_.try_deallocate(s, p, bytes, alignment)) [[unlikely]] {
            core_.refuse_on(s, p, bytes, alignment, at);
        }
    }
    /// Frees a block that no stream uses any more: the program has waited for all of its uses.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        detail::observation<Upstream> const seen = core_.seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!core_.try_deallocate_sync(p, bytes, alignment)) [[unlikely]] {
            core_.refuse(p, bytes, alignment, nullptr, at);
        }
    }

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const { return core_.owns(p); }
    /// Returns the usage. `pending` counts free bytes that some stream may still use. Cost: a walk
    /// over all blocks.
    [[nodiscard]] memory_usage usage() const {
        resource_call const own;
        return core_.usage();
    }
    /// Returns the number and the sizes of the free blocks. Cost: a walk over all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        resource_call const own;
        return core_.free_memory();
    }
    /// Sets both peaks to the current live and reserved bytes. Returns the peaks before the reset.
    memory_usage reset_peaks() noexcept { return core_.reset_peaks(); }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept { core_.raise_peaks(before); }

    /// Returns idle chunks (chunks without a live block) and free pages of virtual memory to the
    /// upstream, while more than `keep` bytes are free. Then trims the upstream. The host may wait
    /// for streams. Returns the number of bytes given back.
    std::size_t trim(std::size_t keep = 0) {
        resource_call const own;
        return core_.trim(keep);
    }
    /// Returns chunks that have no live block and that no stream uses to the upstream. Never waits.
    /// Also records events, so that a later call can return more chunks. Returns the number of
    /// bytes given back.
    std::size_t trim_no_wait() {
        resource_call const own;
        return core_.trim_no_wait();
    }
    /// Returns the block size for a request of `bytes` bytes: rounded up to a multiple of 256.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return align(bytes, detail::bins::granule);
    }
    /// Records an event behind the frees on `s`, for which other streams can wait. With
    /// `event_policy::lazy`, must be called before a raw `cudaStream_t` is destroyed.
    void retire(stream s) {
        resource_call const own;
        core_.retire(s);
    }
    /// Frees the memory that this pool keeps for captured graphs. Graphs that use this memory must
    /// not be launched again, and no running capture may use this pool. Before memory is freed, the
    /// host waits for the devices of this pool's streams.
    ///
    /// Failure   An error of a wait is thrown, and the memory stays kept.
    /// Streams   Launches of these graphs on any other device must be complete before the call.
    void forget_captures() {
        resource_call const own;
        core_.forget_captures();
    }
    /// Returns the options of the constructor.
    [[nodiscard]] pool_options const& options() const noexcept { return core_.options_; }
    /// Returns the device on which the memory is: that of the upstream.
    [[nodiscard]] auto device() const
        requires detail::names_device<Upstream>
    {
        return core_.upstream().device();
    }
    /// Returns the observer of the upstream: an object that is notified of allocations and frees,
    /// also of those of this pool.
    [[nodiscard]] decltype(auto) observer()
        requires observed_resource<Upstream>
    {
        return core_.upstream().observer();
    }
    [[nodiscard]] Upstream&       upstream() noexcept { return core_.upstream(); }
    [[nodiscard]] Upstream const& upstream() const noexcept { return core_.upstream(); }

    /// A pool is equal only to itself, because it has its own bookkeeping.
    friend bool operator==(pool const& a, pool const& b) noexcept { return &a == &b; }

private:
    using resource_call = detail::resource_call<platform>;

    core core_;
};

namespace detail {
/// The type of the object `with::pool`, which creates a pool over a resource: `with::pool`,
/// `with::pool(options)` or `with::pool(size of the first chunk)`.
struct pool_word : with::word<vram::pool, pool_options> {
    using with::word<vram::pool, pool_options>::operator();
    /// Returns an object that creates a pool with a first chunk of `initial_size` bytes when it is
    /// joined with an upstream by `|`.
    [[nodiscard]] auto operator()(std::size_t initial_size) const {
        return with::layer<vram::pool>(pool_options{.initial_size = initial_size});
    }
};
} // namespace detail

namespace with {
/// Puts a pool over a resource: `source | with::pool`. Options or the size of the first chunk may
/// follow: `with::pool(1_GiB)`.
inline constexpr detail::pool_word pool{};
} // namespace with

} // namespace vram
