// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_core` is the part of `staging` that is the same for memory and files: the ways to copy.

#include <vram/base/call_site.hpp>
#include <vram/base/core/smaller_of.hpp>         // larger_of, smaller_of
#include <vram/concepts/core/owning_process.hpp> // delete_in_owning_process
#include <vram/concepts/core/user_line.hpp>      // user_line, part_kind
#include <vram/concepts/memory_kind.hpp>         // memory_kind, knows_memory, knows_page_tables
#include <vram/concepts/resource.hpp>            // synchronous_resource
#include <vram/staging/core/ring_transfer.hpp>
#include <vram/staging/core/transfer_progress.hpp>
#include <vram/staging/staging_error.hpp>
#include <vram/staging/staging_options.hpp>
#include <vram/staging/staging_result.hpp>

#include <cstddef>
#include <cstdint>
#include <exception> // current_exception
#include <memory>    // unique_ptr
#include <utility>

namespace vram {
namespace detail {

/// Copies between host and device, and chooses the way: by one copy, through a ring of pinned
/// chunks (buffers used in turn), or directly between storage and device.
///
/// Failure   Copies throw `staging_error`.
/// Threads   Any thread may call. Calls run one at a time, except those on the path `direct_small`
///           (one copy of few bytes).
/// Streams   Copies are ordered behind the earlier work of the caller's stream.
template <class Platform, synchronous_resource Pinned>
class staging_core {
public:
    using platform = Platform;
    using device   = typename Platform::device;
    using stream   = typename Platform::stream;

    staging_core(staging_core const&)            = delete;
    staging_core& operator=(staging_core const&) = delete;

    /// Returns the way in which `bytes` bytes at the host address `host` are copied to or from the
    /// device. Returns `nothing` if `bytes` is 0.
    [[nodiscard]] transfer_path path_for(void const* host, std::size_t bytes) const {
        if (bytes == 0) { return transfer_path::nothing; }
        memory_kind const kind = kind_of(host, bytes);
        if (kind == memory_kind::pinned) { return transfer_path::direct_pinned; }
        if (kind == memory_kind::managed) { return transfer_path::direct_managed; }
        if (page_tables_) { return transfer_path::direct_host_page_tables; }
        if (bytes <= options_.direct_bytes) { return transfer_path::direct_small; }
        return path_for(bytes);
    }
    /// Returns the path of a copy of `bytes` bytes through pinned chunks: `nothing` for 0 bytes,
    /// `one_thread` up to `staging_options::alone_bytes` bytes, and `ring` (all threads) for more.
    [[nodiscard]] transfer_path path_for(std::size_t bytes) const noexcept {
        if (bytes == 0) { return transfer_path::nothing; }
        return bytes <= options_.alone_bytes ? transfer_path::one_thread : transfer_path::ring;
    }

    /// Returns `gds` (GPUDirect Storage) if the file `of` supports it and `bytes` is more than
    /// `staging_options::alone_bytes`. Otherwise returns `path_for(bytes)`.
    template <class File>
    [[nodiscard]] transfer_path path_for(std::size_t bytes, File const& of) const noexcept {
        transfer_path const way = path_for(bytes);
        if constexpr (requires(File const& f) { f.reaches_device(); }) {
            if (way == transfer_path::ring && of.reaches_device()) { return transfer_path::gds; }
        }
        return way;
    }

    [[nodiscard]] staging_options const& options() const noexcept { return options_; }
    [[nodiscard]] device                 where() const noexcept { return ring_->where(); }
    /// Returns the number of threads that take part in a copy, including the calling thread.
    [[nodiscard]] unsigned threads() const noexcept { return ring_->threads().size(); }
    /// Returns the number of bytes of pinned memory that this object owns until it is destroyed.
    [[nodiscard]] std::size_t pinned_bytes() const noexcept { return ring_->pinned_bytes(); }

protected:
    staging_core(stream s, Pinned pinned, staging_options const& options)
        : options_{options},
          before_{Platform::device_of(s)},
          page_tables_{ask_page_tables(Platform::device_of(s))},
          ring_{new pinning(Platform::device_of(s), std::move(pinned), options)} {}
    ~staging_core() = default;

    using problem = staging_error::reason;

    /// Returns true if an upload of `bytes` bytes writes the pinned chunks with stores that bypass
    /// the CPU's caches. `staging_options::streaming` decides, if it is set. Otherwise this is so
    /// if several threads copy at most 2 MiB each. The device copies a chunk at half speed while a
    /// core caches the chunk.
    [[nodiscard]] bool uploads_past_caches(std::size_t bytes) const noexcept {
        std::size_t const most = std::size_t{threads()} * (std::size_t{2} << 20);
        bool const gains = path_for(bytes) == transfer_path::ring && threads() > 1 && bytes <= most;
        return options_.streaming.value_or(gains);
    }
    /// Returns true if a download of `bytes` bytes writes the host memory with stores that bypass
    /// the CPU's caches. `staging_options::streaming` decides, if it is set. Otherwise this is so,
    /// except if 8 or more threads copy 8 to 64 MiB, because ordinary stores are then faster.
    [[nodiscard]] bool downloads_past_caches(std::size_t bytes) const noexcept {
        bool const loses = path_for(bytes) == transfer_path::ring && threads() >= 8 &&
                           bytes >= (std::size_t{8} << 20) && bytes <= (std::size_t{64} << 20);
        return options_.streaming.value_or(!loses);
    }

    static constexpr bool is_direct(transfer_path way) noexcept {
        return way >= transfer_path::direct_pinned && way <= transfer_path::direct_small;
    }

    void validate(stream s, void const* there, void const* host, std::size_t bytes) const {
        if (bytes == 0) { return; }
        bool const is_host = host != nullptr && !touches_device(host, bytes);
        if (!is_host) { throw staging_error{problem::not_host_memory, bytes, host}; }
        validate(s, there, bytes);
    }
    void validate(stream s, void const* there, std::size_t bytes) const {
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

    /// Calls `body(way)`, which copies `bytes` bytes and sets `way` to the path of the copy.
    /// Returns the result of `body`. If `body` throws an exception that is not a `staging_error`,
    /// throws a `staging_error` with that exception as its cause. `at` is the caller's line.
    template <class Body>
    static staging_result moved(std::size_t bytes, call_site at, Body body) {
        user_line<Platform> const here{at, {part_kind::staging, "staging copy"}};
        return detail::naming<staging_error>(at, [&] {
            transfer_path way = transfer_path::nothing;
            try {
                return body(way);
            } catch (staging_error const&) { throw; } catch (...) {
                throw staging_error{std::current_exception(), way, 0, bytes};
            }
        });
    }

    /// Copies by one `Platform::copy`, and returns when the copy no longer uses the host memory. If
    /// `way` is `direct_small`, the device may still execute the copy after the return.
    staging_result copied(stream s, transfer_path way, void* to, void const* from,
                          std::size_t bytes) {
        if (way == transfer_path::direct_small) {
            // A copy of pageable memory returns only when it no longer uses this memory.
            Platform::copy(s, to, from, bytes);
            return {bytes, way, 1, 1};
        }
        turn const mine{*this};
        Platform::copy(s, to, from, bytes);
        try {
            Platform::record(before_, s);
            Platform::synchronize(before_);
        } catch (...) { // no copy may be in progress when the exception leaves
            if (!waited(s)) { (void)waited(where()); }
            throw;
        }
        return {bytes, way, 1, 1};
    }
    /// Copies `bytes` bytes through pinned chunks, and returns when the copy is complete. `end` is
    /// host memory or a file. If `end` has a function `fill`, copies from `end` to the device
    /// memory `device_end`. Otherwise copies from the device memory to `end`. If `way` is
    /// `one_thread`, one thread copies. Otherwise all threads copy.
    template <class End>
    staging_result staged(stream s, transfer_path way, void* device_end, std::size_t bytes,
                          End const& end) {
        if (bytes == 0) { return {}; }
        bool const                            alone = way == transfer_path::one_thread;
        turn const                            mine{*this};
        typename Platform::device_guard const on{where()};
        Platform::record(before_, s);
        Platform::wait(ring_->copies(), before_);
        std::size_t const largest = alone ? smaller_of(bytes / 4, ring_->chunk_bytes())
                                          : piece_plan::fitting(bytes, ring_->chunk_bytes());
        std::size_t const first   = larger_of(options_.first_bytes, bytes / 2048);
        piece_plan const  plan{bytes, largest, first};
        ring_transfer<pinning, Platform, End const> all{*ring_, plan,
                                                        static_cast<std::byte*>(device_end), end};
        if (alone) {
            all.run(0);
        } else {
            call_site const at = user_line<Platform>::caller();
            ring_->threads().run([&](unsigned thread) noexcept {
                user_line<Platform> const here{at, {part_kind::staging, "staging copy"}};
                all.run(thread);
            });
        }
        if (all.failed()) { throw staging_error{all.cause(), way, all.whole(), bytes}; }
        return {bytes, way, plan.pieces(), alone ? 1 : threads()};
    }

    /// Copies `bytes` bytes between a file and the device by GPUDirect Storage. First waits for the
    /// earlier work of the stream `s`. Then all threads call `move(offset, bytes)`, for different
    /// pieces.
    template <class Move>
    staging_result through_storage(stream s, std::size_t bytes, Move const& move) {
        turn const                            mine{*this};
        typename Platform::device_guard const on{where()};
        Platform::synchronize(s);
        std::size_t const pieces = bytes / storage_piece + (bytes % storage_piece != 0 ? 1 : 0);
        transfer_progress all{pieces};
        ring_->threads().run([&](unsigned) noexcept {
            for (std::size_t i = all.take(); i != all.none; i = all.take()) {
                std::size_t const offset = i * storage_piece;
                try {
                    move(offset, smaller_of(storage_piece, bytes - offset));
                } catch (...) { return all.fail(i); }
            }
        });
        if (all.failed()) {
            std::size_t const whole = smaller_of(all.whole() * storage_piece, bytes);
            throw staging_error{all.cause(), transfer_path::gds, whole, bytes};
        }
        return {bytes, transfer_path::gds, pieces, threads()};
    }

private:
    using pinning = ring<Platform, Pinned>;

    /// Number of bytes of one read or write by GPUDirect Storage: the most that cuFile moves at
    /// once.
    static constexpr std::size_t storage_piece = std::size_t{16} << 20;

    /// The right of one call to use the ring of pinned chunks. The constructor waits for this
    /// right.
    struct turn {
        explicit turn(staging_core& whose) : of{whose} {
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
        staging_core& of;
    };

    static bool ask_page_tables(device d) {
        if constexpr (knows_page_tables<Platform>) {
            return Platform::uses_host_page_tables(d);
        } else {
            return (void)d, false;
        }
    }

    /// Returns the kind of the memory at `p`, such as pinned or pageable. Returns `pageable` if the
    /// first and the last byte are of different kinds, or if the platform cannot tell.
    static memory_kind kind_of(void const* p, std::size_t bytes) {
        if constexpr (knows_memory<Platform>) {
            memory_kind const first = Platform::memory_kind_of(p);
            auto const        last  = reinterpret_cast<std::uintptr_t>(p) + (bytes - 1);
            return Platform::memory_kind_of(reinterpret_cast<void const*>(last)) == first
                       ? first
                       : memory_kind::pageable;
        } else {
            return (void)p, (void)bytes, memory_kind::pageable;
        }
    }
    static bool touches_device(void const* p, std::size_t bytes) {
        if constexpr (knows_memory<Platform>) {
            auto const* const last = static_cast<std::byte const*>(p) + (bytes - 1);
            return Platform::memory_kind_of(p) == memory_kind::device ||
                   Platform::memory_kind_of(last) == memory_kind::device;
        } else {
            return (void)p, (void)bytes, false;
        }
    }
    template <class Place>
    static bool waited(Place const& place) noexcept {
        try {
            Platform::synchronize(place);
            return true;
        } catch (...) { return false; }
    }

    staging_options         options_;
    typename Platform::gate gate_;
    bool                    busy_ = false;
    /// Event on the caller's stream. It is recorded before copies through pinned chunks, which wait
    /// for it, and after a direct copy for which the calling thread waits.
    typename Platform::event                           before_;
    bool                                               page_tables_;
    std::unique_ptr<pinning, delete_in_owning_process> ring_;
};

} // namespace detail
} // namespace vram
