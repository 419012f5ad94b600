// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `shard_selector` selects the shard of an arena that serves a call.

#include <vram/base/contract.hpp> // expects
#include <vram/base/core/thread_number.hpp>
#include <vram/order/core/stream_key.hpp>
#include <vram/pool/arena_key.hpp>
#include <vram/pool/core/stream_affinity.hpp>

#include <bit> // bit_ceil
#include <cstddef>
#include <thread> // hardware_concurrency

namespace vram {
namespace detail {

/// Selects one of the `count()` shards (pools of an arena) for a call: by the calling thread, or by
/// the stream of the call.
///
/// Failure   The constructor throws `std::bad_alloc`.
/// Threads   Any number of threads may call concurrently; a move needs exclusive access.
template <class Platform>
class shard_selector {
public:
    using stream = typename Platform::stream;

    static constexpr unsigned most = 64; ///< largest number of shards (pools) of an arena

    /// `count`: number of shards (pools of the arena), rounded up to a power of two. 0 selects a
    /// default by the number of hardware threads.
    shard_selector(arena_key key, unsigned count) : key_{key} {
        expects(count <= most, "arena: `count` must be at most 64");
        count_ = std::bit_ceil(count != 0 ? count : usual_count());
        if (key == arena_key::stream) { affinity_ = stream_affinity{count_}; }
    }

    [[nodiscard]] unsigned count() const noexcept { return count_; }
    /// Returns the index of the shard (arena pool) for a call of this thread without a stream.
    [[nodiscard]] std::size_t of_thread() const noexcept { return thread_number() & (count_ - 1); }
    /// Returns the index of the shard (arena pool) for a call of this thread on the stream `s`.
    [[nodiscard]] std::size_t of(stream s) noexcept {
        return key_ == arena_key::stream ? of_stream(s) : of_thread();
    }
    /// Returns the index of the shard (arena pool) for a call of this thread: on the stream `*on`,
    /// or without a stream if `on` is null.
    [[nodiscard]] std::size_t of(stream const* on) noexcept {
        return on != nullptr ? of(*on) : of_thread();
    }
    /// Forgets which shard (arena pool) serves the stream `s`, which is about to be destroyed.
    void forget(stream s) {
        if (key_ == arena_key::stream) { affinity_.forget(stream_key<Platform>::named(s)); }
    }

private:
    [[nodiscard]] static unsigned usual_count() noexcept {
        unsigned const together = std::thread::hardware_concurrency();
        return together < most ? together + 1 : most;
    }
    [[nodiscard]] std::size_t of_stream(stream s) noexcept {
        try {
            return affinity_.of(stream_key<Platform>::named(s));
        } catch (...) { return 0; } // shard 0, if the id of the stream cannot be queried
    }

    stream_affinity affinity_; ///< shard index of each stream, if `key_` is `arena_key::stream`
    arena_key       key_;
    unsigned        count_ = 1;
};

} // namespace detail
} // namespace vram
