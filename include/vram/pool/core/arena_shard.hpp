// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_shard` is a shard of an arena: a pool with a queue of remote frees.

#include <vram/base/call_site.hpp>
#include <vram/concepts/core/is_default_stream.hpp>
#include <vram/concepts/core/is_destroyed.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/refused_free.hpp> // collects_refusals
#include <vram/concepts/observer.hpp>          // memory_event_kind
#include <vram/pool/core/block.hpp>
#include <vram/pool/core/remote_free_list.hpp>
#include <vram/pool/event_policy.hpp>
#include <vram/pool/pool_options.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// A shard of an arena: a `pool_core`, and a queue of remote frees. A remote free is the free of a
/// block of this pool by a thread that uses another shard. `free_remotely` adds it to the queue
/// without taking the pool's lock; `drain_remote_frees` executes the queued frees. The arena calls
/// `drain_remote_frees` if a request finds no cached block in the shard, and before it reads the
/// usage, because a block counts as live until its free is executed. The freeing thread executes a
/// remote free itself, without the queue, in five cases: each free records its own event
/// (`event_policy::eager`); captures are tracked (`pool_options::graphs`); the stream is a default
/// stream (its handle means another stream on the draining thread); the stream's id cannot be
/// queried; the queue is full, or host memory for it cannot be allocated.
///
/// Failure   A free of a foreign pointer, a double free and a wrong size are reported when the
///           queue is drained. If a block is freed twice, once by a remote free, the second free
///           may free it for its next owner; the simulator reports that (`checked`).
/// Threads   Any number of threads may call `free_remotely` and `drain_remote_frees` concurrently.
///           The rules for other functions are those of the pool.
/// Cost      `free_remotely` costs a short lock, and, to register the stream, the lock of the pool
///           of the calling thread's shard (`from`). If `from` is null, the id of the stream is
///           queried. If 256 frees are queued, the calling thread drains all of them with the
///           pool's lock.
template <class Core>
class arena_shard {
public:
    using platform      = typename Core::platform;
    using stream        = typename Core::stream;
    using upstream_type = typename Core::upstream_type;

    explicit arena_shard(upstream_type upstream, pool_options const& options = {},
                         typename Core::growth_policy policy = {})
        : core_{std::move(upstream), options, std::move(policy)} {}
    arena_shard(arena_shard&&) = delete; ///< not movable: other threads have its address
    ~arena_shard() {
        if (!is_ending<platform>()) { drain_remote_frees(); }
    }

    /// Frees a block of this shard (pool of the arena) for a thread that uses another shard: queues
    /// the free, or executes it now if `can_wait` returns false or the queue is full. `on` is the
    /// stream that may still use the block, or null if no stream does. `from` is the shard of the
    /// calling thread, or null if the thread has no shard.
    void free_remotely(stream const* on, void* p, std::size_t bytes, std::size_t alignment,
                       arena_shard* from = nullptr, call_site at = {}) noexcept {
        if (can_wait(on, from)) {
            if (remote_frees_.push({p, bytes, alignment, at, on != nullptr, on ? *on : stream{}})) {
                return;
            }
            drain_remote_frees();
        }
        bool const was_out = on != nullptr ? core_.try_deallocate(*on, p, bytes, alignment)
                                           : core_.try_deallocate_sync(p, bytes, alignment);
        if (!was_out) { core_.refuse(p, bytes, alignment, on, at); }
    }

    /// Returns the pool of this shard. Queued frees (by threads of other shards) have no effect on
    /// the pool until `drain_remote_frees` executes them.
    [[nodiscard]] Core&       core() noexcept { return core_; }
    [[nodiscard]] Core const& core() const noexcept { return core_; }

    /// Executes the queued frees by threads of other shards, with the pool's lock taken once. Cost:
    /// one load if the queue is empty.
    void drain_remote_frees() noexcept {
        if (remote_frees_.any()) { drain_all(); }
    }

    /// Returns `p`, a block that this shard (pool of the arena) has just allocated, or null. If the
    /// block was freed twice, the second free, by a thread of another shard, may still be queued,
    /// and would free the block for its new owner. On the simulator (a platform that collects
    /// refused frees), removes such frees from the queue and reports them as double frees. Other
    /// platforms execute them later.
    void* checked(void* p) noexcept {
        if constexpr (collects_refusals<platform>) {
            remote_free stale;
            while (p != nullptr && remote_frees_.any() && remote_frees_.remove(p, stale)) {
                refuse(stale, true);
            }
        }
        return p;
    }

private:
    using remote_free = typename remote_free_list<platform>::remote_free;

    [[gnu::noinline]] void drain_all() noexcept {
        auto const held = core_.lock_.hold();
        remote_frees_.drain([&](remote_free const& n) {
            block* const  b  = core_.heap_.live(n.p, n.bytes);
            stream const* on = n.in_use ? &n.on : nullptr;
            if (b != nullptr && on != nullptr &&
                core_.heap_.give_quick(b, n.bytes, n.alignment, n.on)) {
                return;
            }
            if (!core_.heap_.give(b, n.bytes, n.alignment, on, true)) { refuse(n, false); }
        });
    }
    /// Reports an invalid free `n`, which a thread of another shard (pool of the arena) queued. If
    /// `stale` is true, the block was allocated again before the free was executed: a double free.
    /// If `stale` is false, the reason is looked up in the pool, so the caller must hold the pool's
    /// lock.
    [[gnu::cold, gnu::noinline]] void refuse(remote_free const& n, bool stale) noexcept {
        refused_free e{core_.name_, n.p, n.bytes, n.alignment, n.at};
        if (n.in_use && !is_destroyed<platform>(n.on)) { e.template on<platform>(&n.on); }
        stale ? (void)e.found_free() : core_.heap_.explain_refusal(e);
        e.template report<platform>();
        core_.seen().notify(memory_event_kind::free_refused, n.p, n.bytes,
                            n.in_use ? &n.on : nullptr, n.at);
    }
    /// Makes the stream `s` known to the pool. If the id of `s` is not known yet, queries the id,
    /// which CUDA forbids while `s` is being captured. Throws if the query fails, or if host memory
    /// cannot be allocated.
    void register_stream(stream s) {
        auto const held = core_.lock_.hold();
        core_.heap_.register_stream(s);
    }
    /// Returns true if a thread of the shard `from` may queue its free of a block of this shard:
    /// events are recorded lazily, captures are not tracked, and the stream `on` (null: no stream
    /// uses the block) is no default stream and has a known id. `from` is null if the thread has no
    /// shard.
    [[nodiscard]] bool can_wait(stream const* on, arena_shard* from) const noexcept {
        pool_options const& options = core_.options_;
        return options.events == event_policy::lazy && !options.graphs &&
               (on == nullptr || (!is_default_stream<platform>(*on) && has_said(*on, from)));
    }
    /// Makes the id of the stream `s` known, before a free on `s` is queued. Returns true if that
    /// succeeded. The queued free may be executed while `s` is being captured; CUDA then forbids
    /// the query of the id, and the block would be lost. If the freeing thread has a shard (pool of
    /// the arena) `from`, `s` is registered there, which keeps the id until `s` is retired. If
    /// `from` is null, the id is only queried.
    [[nodiscard]] static bool has_said(stream s, arena_shard* from) noexcept {
        try {
            from != nullptr ? from->register_stream(s) : (void)platform::id(s);
            return true;
        } catch (...) { return false; } // not queued: the free is executed and reports the error
    }

    Core core_;
    /// The queue of remote frees: of blocks of this shard (pool of the arena), by threads of other
    /// shards. It has cache lines of its own, because these threads write it.
    remote_free_list<platform> remote_frees_;
};

} // namespace detail
} // namespace vram
