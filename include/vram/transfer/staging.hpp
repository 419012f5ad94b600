// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging` moves plain host memory and files to the device and back, as fast as pinned memory
/// goes.

#include <vram/concepts/memory_kind.hpp>     // memory_kind, knows_memory, knows_page_tables
#include <vram/concepts/platform_of.hpp>     // platform_of
#include <vram/concepts/resource.hpp>        // synchronous_resource
#include <vram/transfer/host_end.hpp>        // host_end
#include <vram/transfer/ring_transfer.hpp>   // ring_transfer
#include <vram/transfer/staging_error.hpp>   // staging_error
#include <vram/transfer/staging_options.hpp> // staging_options
#include <vram/transfer/staging_result.hpp>  // staging_result

#include <algorithm>   // min
#include <concepts>    // default_initializable
#include <cstddef>     // size_t, byte
#include <exception>   // current_exception
#include <ranges>      // contiguous_range, sized_range
#include <span>        // span, as_bytes
#include <type_traits> // is_trivially_copyable_v
#include <utility>     // move

namespace vram {

/// A ring of pinned memory with threads that copy into it, or out of it, while the device copies
/// the other chunks. Made once and kept: a call takes no memory, pins nothing and starts no thread.
///
///     staging stage{stream};
///     stage.upload(stream, device, weights);              // a vector, a span
///     stage.upload(stream, device, file{path}, offset, bytes);
///     auto const how = stage.download(stream, results, device);
///     puts(how.reason());                                 // "many bytes of pageable memory ..."
///
/// Memory that is pinned, managed or read through the host's page tables is copied directly, and so
/// are few bytes (`choice`).
///
/// Failure   `staging_error` with the bytes that are whole and what was thrown; then nothing is on
///           its way. The constructor throws what memory, threads and streams throw, and keeps
///           nothing
/// Threads   any; calls take turns. The caller is one of the threads that copy
/// Streams   after what the stream has got before, and before what it gets afterwards. The host's
///           memory is used from the call to its return, also what it holds
/// Cost      waking the threads, 50 us; on an H200's host 8 threads reach 0.94 of the link upward,
///           4 threads 0.95 downward
template <class Platform, synchronous_resource Pinned = typename Platform::pinned_resource>
class staging {
    template <class R>
    static constexpr bool trivial = std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;

public:
    using platform = Platform;
    using device   = typename Platform::device;
    using stream   = typename Platform::stream;

    /// For the device of `s`, with the platform's own pinned memory.
    explicit staging(stream s, staging_options const& options = {})
        requires std::default_initializable<Pinned>
        : staging{s, make_pinned(s), options} {}

    /// With memory from a resource of the user's: owned, or a handle.
    staging(stream s, Pinned pinned, staging_options const& options = {})
        : options_{options},
          before_{Platform::device_of(s)},
          page_tables_{ask_page_tables(Platform::device_of(s))},
          ring_{Platform::device_of(s), std::move(pinned), options} {}

    staging(staging const&)            = delete;
    staging& operator=(staging const&) = delete;

    /// All of `from` to the device's memory at `to`.
    staging_result upload(stream s, void* to, std::span<std::byte const> from) {
        return moved(from.size(), [&](staging_choice& way) {
            way = choice(from.data(), from.size());
            admit(s, to, from.data(), from.size());
            if (is_direct(way)) { return copied(s, way, to, from.data(), from.size()); }
            typename ends::source_memory const end{from.data()};
            return staged(s, way, to, from.size(), end);
        });
    }
    /// Fills `to` from the device's memory at `from`.
    staging_result download(stream s, std::span<std::byte> to, void const* from) {
        return moved(to.size(), [&](staging_choice& way) {
            way = choice(to.data(), to.size());
            admit(s, from, to.data(), to.size());
            if (is_direct(way)) { return copied(s, way, to.data(), from, to.size()); }
            typename ends::target_memory const end{to.data(), options_.streaming};
            return staged(s, way, const_cast<void*>(from), to.size(), end); // which only reads
        });
    }

    /// The same for arrays, vectors, spans of trivially copyable elements.
    template <std::ranges::contiguous_range R>
        requires std::ranges::sized_range<R> && trivial<R>
    staging_result upload(stream s, void* to, R const& from) {
        return upload(s, to, std::as_bytes(std::span{from}));
    }
    template <std::ranges::contiguous_range R>
        requires std::ranges::sized_range<R> && trivial<R>
    staging_result download(stream s, R&& to, void const* from) {
        return download(s, std::as_writable_bytes(std::span{to}), from);
    }

    /// `bytes` bytes of a file, from `offset` on, to the device's memory at `to`.
    template <readable_at File>
    staging_result upload(stream s, void* to, File const& from, std::size_t offset,
                          std::size_t bytes) {
        return moved(bytes, [&](staging_choice& way) {
            way = choice(bytes);
            admit(s, to, bytes);
            typename ends::template source_file<File> const end{from, offset};
            return staged(s, way, to, bytes, end);
        });
    }
    /// `bytes` bytes of the device's memory at `from` into a file, from `offset` on.
    template <writable_at File>
    staging_result download(stream s, File& to, std::size_t offset, void const* from,
                            std::size_t bytes) {
        return moved(bytes, [&](staging_choice& way) {
            way = choice(bytes);
            admit(s, from, bytes);
            typename ends::template target_file<File> const end{to, offset};
            return staged(s, way, const_cast<void*>(from), bytes, end);
        });
    }

    /// The way that `bytes` bytes at `host` would take, upward or downward.
    [[nodiscard]] staging_choice choice(void const* host, std::size_t bytes) const {
        if (bytes == 0) { return staging_choice::nothing; }
        memory_kind const kind = kind_of(host, bytes);
        if (kind == memory_kind::pinned) { return staging_choice::direct_pinned; }
        if (kind == memory_kind::managed) { return staging_choice::direct_managed; }
        if (page_tables_) { return staging_choice::direct_host_page_tables; }
        if (bytes <= options_.direct_bytes) { return staging_choice::direct_small; }
        return choice(bytes);
    }
    /// The way that `bytes` bytes of a file would take.
    [[nodiscard]] staging_choice choice(std::size_t bytes) const noexcept {
        if (bytes == 0) { return staging_choice::nothing; }
        return bytes <= options_.alone_bytes ? staging_choice::one_thread : staging_choice::ring;
    }

    [[nodiscard]] staging_options const& options() const noexcept { return options_; }
    [[nodiscard]] device                 where() const noexcept { return ring_.where(); }
    /// Threads that copy, the caller's among them.
    [[nodiscard]] unsigned threads() const noexcept { return ring_.threads().size(); }
    /// Bytes that stay pinned as long as this lives.
    [[nodiscard]] std::size_t pinned_bytes() const noexcept { return ring_.pinned_bytes(); }

private:
    using ends    = host_end<Platform>;
    using pinning = ring<Platform, Pinned>;
    using problem = staging_error::reason;

    /// One call at a time has the ring.
    struct turn {
        explicit turn(staging& whose) : of{whose} {
            auto held = of.gate_.hold();
            of.gate_.wait(held, [&] { return !of.busy_; });
            of.busy_ = true;
        }
        turn(turn&&) = delete;
        ~turn() {
            {
                auto const held = of.gate_.hold();
                of.busy_        = false;
            }
            of.gate_.notify();
        }
        staging& of;
    };

    static Pinned make_pinned(stream s) {
        typename Platform::device_guard const on{Platform::device_of(s)};
        return Pinned{};
    }
    static bool ask_page_tables(device d) {
        if constexpr (knows_page_tables<Platform>) {
            return Platform::uses_host_page_tables(d);
        } else {
            return (void)d, false;
        }
    }

    /// What both ends of a range are; pageable where they are not the same.
    static memory_kind kind_of(void const* p, std::size_t bytes) {
        if constexpr (knows_memory<Platform>) {
            memory_kind const first = Platform::memory_kind_of(p);
            auto const* const last  = static_cast<std::byte const*>(p) + (bytes - 1);
            return Platform::memory_kind_of(last) == first ? first : memory_kind::pageable;
        } else {
            return (void)p, (void)bytes, memory_kind::pageable;
        }
    }
    static constexpr bool is_direct(staging_choice way) noexcept {
        return way >= staging_choice::direct_pinned && way <= staging_choice::direct_small;
    }

    void admit(stream s, void const* there, void const* host, std::size_t bytes) const {
        if (bytes == 0) { return; }
        bool const is_host = host != nullptr && kind_of(host, bytes) != memory_kind::device;
        if (!is_host) { throw staging_error{problem::not_host_memory, bytes, host}; }
        admit(s, there, bytes);
    }
    void admit(stream s, void const* there, std::size_t bytes) const {
        if (bytes == 0) { return; }
        bool known = there != nullptr;
        if constexpr (knows_memory<Platform>) {
            known = known && kind_of(there, bytes) != memory_kind::pageable;
        }
        if (!known) { throw staging_error{problem::not_device_memory, bytes, there}; }
        if (Platform::capturing(s)) { throw staging_error{problem::capturing, bytes}; }
        if (!(Platform::device_of(s) == where())) {
            throw staging_error{problem::other_device, bytes};
        }
    }

    /// Everything that is thrown on the way tells how far it came.
    template <class Body>
    static staging_result moved(std::size_t bytes, Body body) {
        staging_choice way = staging_choice::nothing;
        try {
            return body(way);
        } catch (staging_error const&) { throw; } catch (...) {
            throw staging_error{std::current_exception(), way, 0, bytes};
        }
    }

    /// By one copy in the stream, which the host waits for where it goes on without being told to.
    staging_result copied(stream s, staging_choice way, void* to, void const* from,
                          std::size_t bytes) {
        if (way == staging_choice::direct_small) {
            Platform::copy(s, to, from, bytes);
            return {bytes, way, 1, 1};
        }
        turn const mine{*this};
        Platform::copy(s, to, from, bytes);
        try {
            Platform::record(before_, s);
            Platform::synchronize(before_);
        } catch (...) { // nothing may be under way when this is thrown
            if (!waited(s)) { (void)waited(where()); }
            throw;
        }
        return {bytes, way, 1, 1};
    }
    template <class Place>
    static bool waited(Place const& place) noexcept {
        try {
            Platform::synchronize(place);
            return true;
        } catch (...) { return false; }
    }

    /// Through the ring.
    template <class End>
    staging_result staged(stream s, staging_choice way, void* device_end, std::size_t bytes,
                          End const& end) {
        if (bytes == 0) { return {}; }
        bool const                            alone = way == staging_choice::one_thread;
        turn const                            mine{*this};
        typename Platform::device_guard const on{where()};
        Platform::record(before_, s);
        Platform::wait(ring_.copies(), before_);
        std::size_t const largest = alone ? std::min(bytes / 4, ring_.chunk_bytes())
                                          : piece_plan::fitting(bytes, ring_.chunk_bytes());
        piece_plan const  plan{bytes, largest, options_.first_bytes};
        ring_transfer<pinning, Platform, End const> all{ring_, plan,
                                                        static_cast<std::byte*>(device_end), end};
        if (alone) {
            all.run(0);
        } else {
            ring_.threads().run([&](unsigned thread) noexcept { all.run(thread); });
        }
        if (all.failed()) { throw staging_error{all.cause(), way, all.whole(), bytes}; }
        return {bytes, way, plan.pieces(), alone ? 1 : threads()};
    }

    staging_options          options_;
    typename Platform::gate  gate_;
    bool                     busy_ = false;
    typename Platform::event before_; ///< what the caller's stream had got
    bool                     page_tables_;
    pinning                  ring_;
};

template <class Stream>
staging(Stream const&, staging_options = {}) -> staging<platform_of<Stream>>;
template <class Stream, synchronous_resource Pinned>
staging(Stream const&, Pinned, staging_options = {}) -> staging<platform_of<Stream>, Pinned>;

} // namespace vram
