// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `private_pool` is a shard of an arena: a pool with a queue of remote frees.

#include <vram/base/call_site.hpp>             // call_site
#include <vram/concepts/is_default_stream.hpp> // is_default_stream
#include <vram/concepts/is_ending.hpp>         // is_ending
#include <vram/pool/event_policy.hpp>          // event_policy
#include <vram/pool/pool_options.hpp>          // pool_options
#include <vram/pool/returned_blocks.hpp>       // returned_blocks

#include <cstddef> // size_t
#include <utility> // forward, move

namespace vram {

/// A shard: a `pool` to which other threads return blocks through a queue, without the pool's lock.
/// The shard drains the queue (`collect`) when it needs memory, and before it frees a block that
/// may be in the queue. Queued blocks still count as live, so `collect` must be called before the
/// usage is read. A remote free is not queued but done at once if its time matters: if each free
/// records its own event, if captures are tracked, on a default stream, because its handle means
/// another stream on the draining thread, and if the stream's id cannot be queried.
///
/// Failure   A free of a foreign pointer, a double free and a wrong size are reported when the
///           queue is drained. Over a `registered_source`, a queued free that is older than the
///           current allocation of its block is reported as a double free, and the block stays
///           allocated.
/// Threads   Any number of threads may call `leave` and `collect` concurrently. The rules for other
///           functions are those of the pool.
/// Cost      `leave` costs a short lock, and the lock of the pool `from` to register the stream.
///           Without such a pool, the stream is asked for its id. If 256 frees are queued, all of
///           them are drained with the pool's lock. Each free reads a word that other threads
///           write.
template <class Pool>
class private_pool : public Pool {
public:
    using typename Pool::platform;
    using typename Pool::stream;

    using upstream_type = typename Pool::upstream_type;

    /// Creates the shard with the arguments of a pool.
    template <class... Growth>
    explicit private_pool(upstream_type upstream, pool_options options = {}, Growth&&... growth)
        : Pool{std::move(upstream), options, std::forward<Growth>(growth)...} {
        if constexpr (Pool::is_private) { this->count_left(returned_.left()); }
    }
    private_pool(private_pool&&) = delete; ///< other threads have its address
    ~private_pool() {
        if (!is_ending<platform>()) { collect(); }
    }

    /// Frees a block remotely: queues it, or frees it at once. `on` is the stream that may still
    /// use the block, or null if none does. `from` is the shard of the calling thread, or null if
    /// it has none.
    void leave(stream const* on, void* p, std::size_t bytes, std::size_t alignment,
               private_pool* from = nullptr, call_site at = {}) noexcept {
        if (can_wait(on, from)) {
            if (returned_.leave({p, bytes, alignment, at, on != nullptr, on ? *on : stream{}})) {
                return;
            }
            collect();
        }
        bool const was_out = on != nullptr ? try_deallocate(*on, p, bytes, alignment)
                                           : try_deallocate_sync(p, bytes, alignment);
        if (!was_out) { this->refuse(p, bytes, alignment, on, at); }
    }

    using Pool::refuse;

    // The functions below behave as those of the pool, but drain the queue before they free a block
    // that may be in it: the queued free came first, and its stream may still use the block.

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (!try_deallocate(s, p, bytes, alignment)) {
            this->refuse_on(s, p, bytes, alignment, at);
        }
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (!try_deallocate_sync(p, bytes, alignment)) {
            this->refuse(p, bytes, alignment, nullptr, at);
        }
    }
    [[nodiscard]] bool try_deallocate(stream s, void* p, std::size_t bytes,
                                      std::size_t alignment = default_alignment) noexcept {
        if (returned_.may_have(p)) [[unlikely]] {
            return this->try_deallocate_behind(returned_, &s, p, bytes, alignment);
        }
        return Pool::try_deallocate(s, p, bytes, alignment);
    }
    [[nodiscard]] bool try_deallocate_sync(void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment) noexcept {
        if (returned_.may_have(p)) [[unlikely]] {
            return this->try_deallocate_behind(returned_, nullptr, p, bytes, alignment);
        }
        return Pool::try_deallocate_sync(p, bytes, alignment);
    }

    /// Drains the queue of remote frees with the pool's lock taken once. Cost: one load if the
    /// queue is empty.
    void collect() noexcept {
        if (returned_.any()) { this->take_back(returned_); }
    }

private:
    [[nodiscard]] bool can_wait(stream const* on, private_pool* from) const noexcept {
        auto const& options = this->options();
        return options.events == event_policy::lazy && !options.graphs &&
               (on == nullptr || (!is_default_stream<platform>(*on) && has_said(*on, from)));
    }
    /// Returns true if the stream's id is known. When a queued free is drained, the stream may be
    /// in a capture, during which its id cannot be queried; the block would be lost. So the freeing
    /// thread queries the id and registers the stream with its own shard `from`, which remembers
    /// it, so that the query is made once. To remember only the last handle would be wrong: a new
    /// stream may have the handle of a destroyed one and would be mistaken for it. Pools forget a
    /// stream when it is retired, which must happen before its end.
    [[nodiscard]] static bool has_said(stream s, private_pool* from) noexcept {
        try {
            from != nullptr ? from->meet(s) : (void)platform::id(s);
            return true;
        } catch (...) { return false; } // the block is freed at once, which reports the error
    }

    /// On cache lines of its own, because other threads write it.
    returned_blocks<platform> returned_;
};

} // namespace vram
