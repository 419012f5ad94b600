// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ring` is the pinned chunks of a `staging`, with the threads and the stream that copy.

#include <vram/base/align.hpp>
#include <vram/base/contract.hpp>               // expects
#include <vram/base/error.hpp>                  // report_error
#include <vram/base/tag.hpp>                    // tagged
#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/user_line.hpp> // name_stream
#include <vram/concepts/resource.hpp>       // synchronous_resource
#include <vram/concepts/sited.hpp>
#include <vram/staging/core/piece_plan.hpp>
#include <vram/staging/core/thread_team.hpp>
#include <vram/staging/staging_options.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <span> // span
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The pinned memory of a `staging` (an object that copies through pinned memory). It consists of
/// chunks for each thread that copies. A stream copies between the chunks and the device.
///
/// Failure   If the constructor throws, it frees what it allocated. The destructor reports a leak
///           if a copy may still use the memory.
/// Threads   Each thread uses only the chunks in its own `lane`. All threads share the stream.
/// Cost      `threads * chunks * chunk_bytes` bytes of pinned memory, which is 64 MiB by default.
template <class Platform, synchronous_resource Pinned = typename Platform::pinned_resource>
class ring {
public:
    using device = typename Platform::device;
    using stream = typename Platform::stream;

    /// One chunk of the pinned memory, and the state of its last copy from or to the device.
    struct chunk {
        explicit chunk(device where) : copied{where} {}

        /// Event that is recorded after each copy between this chunk and the device.
        typename Platform::event copied;
        std::byte*               memory = nullptr;
        /// Index of the piece of the transfer that this chunk contains.
        std::size_t piece     = 0;
        bool        in_flight = false;
        /// True if the event `copied` has been recorded after the copy in progress. If this is
        /// false, the end of the copy can be found only by a wait for the stream or the device.
        bool recorded = false;
    };

    ring(device where, Pinned pinned, staging_options const& options)
        : where_{where},
          pinned_{std::move(pinned)},
          chunk_bytes_{align(options.chunk_bytes, piece_plan::unit)},
          each_{options.chunks},
          copies_{where},
          memory_{*this, options.resolved_threads()},
          team_{where, options.resolved_threads()} {
        name_stream<Platform>(copies(), "staging copies");
        chunks_.reserve(memory_.chunks);
        for (std::size_t i = 0; i < memory_.chunks; ++i) {
            chunks_.emplace_back(where).memory = memory_.begin + i * chunk_bytes_;
        }
    }
    ring(ring const&)            = delete;
    ring& operator=(ring const&) = delete;

    /// Returns the lane of thread `thread`: the pinned chunks that only this thread uses.
    [[nodiscard]] std::span<chunk> lane(unsigned thread) noexcept {
        return std::span{chunks_}.subspan(thread * each_, each_);
    }
    [[nodiscard]] device                       where() const noexcept { return where_; }
    [[nodiscard]] stream                       copies() const { return copies_.view(); }
    [[nodiscard]] thread_team<Platform>&       threads() noexcept { return team_; }
    [[nodiscard]] thread_team<Platform> const& threads() const noexcept { return team_; }
    /// Returns the lock that a thread holds while it enqueues a copy and records an event after the
    /// copy. It saves time: calls of the driver by several threads at once would take longer.
    [[nodiscard]] platform_lock<Platform> const& queueing() const noexcept { return queueing_; }
    [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
    [[nodiscard]] std::size_t pinned_bytes() const noexcept { return memory_.bytes; }

    /// Returns true if the threads of this ring can run. Returns false in a forked child process,
    /// and while a process with simulated threads is ending.
    [[nodiscard]] bool in_owning_process() const noexcept {
        return owner_.is_current() && !threads_stand_still<Platform>();
    }
    /// Makes the destructor report the pinned memory as a leak and not free it, because the device
    /// may still use it.
    void leak_memory() noexcept { memory_.lost.store(true, std::memory_order_relaxed); }

private:
    // Owns the pinned memory of a `ring`. If the constructor of `ring` throws, the destructor of
    // this member still frees the memory.
    struct pinned_memory {
        pinned_memory(ring& of, unsigned threads) : owner{of} {
            detail::expect_resource(of.pinned_,
                                    "staging: the handle must hold a resource; it was moved from");
            expects(of.each_ != 0 && of.chunk_bytes_ != 0,
                    "staging_options: chunks and chunk_bytes must be at least 1");
            chunks = std::size_t{threads} * of.each_;
            expects(of.chunk_bytes_ <= unsatisfiable / chunks,
                    "staging_options: the chunks of all threads must fit in memory");
            bytes = chunks * of.chunk_bytes_;
            tagged const purpose{"staging"};
            begin = static_cast<std::byte*>(of.pinned_.allocate_sync(bytes, piece_plan::unit));
        }
        pinned_memory(pinned_memory&&) = delete;
        ~pinned_memory() {
            // Relaxed order suffices for `lost`: no other thread uses the ring any more.
            if (lost.load(std::memory_order_relaxed)) {
                report_error({.kind    = error_kind::leak,
                              .pointer = begin,
                              .bytes   = bytes,
                              .cause   = "waiting for the copies that use it failed"});
            } else {
                sited{owner.pinned_}.deallocate_sync(begin, bytes, piece_plan::unit);
            }
        }

        ring&             owner;
        std::size_t       chunks = 0;
        std::size_t       bytes  = 0;
        std::byte*        begin  = nullptr;
        std::atomic<bool> lost{false}; ///< true if the memory must not be freed; set by any thread
    };

    owning_process                owner_;
    device                        where_;
    [[no_unique_address]] Pinned  pinned_;
    std::size_t                   chunk_bytes_;
    std::size_t                   each_; ///< number of pinned chunks of each thread
    typename Platform::own_stream copies_;
    pinned_memory                 memory_;
    std::vector<chunk>            chunks_;
    platform_lock<Platform>       queueing_;
    thread_team<Platform>         team_;
};

} // namespace detail
} // namespace vram
