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

/// A shard of an arena: a pool, and a queue of frees by threads that use other shards, so that most
/// of these frees do not take the pool's lock. A queued block counts as live until
/// `drain_remote_frees`.
///
/// Failure   An invalid queued free is reported when it is executed. If a block is freed twice, a
///           queued second free may be executed after the block was allocated again, and then frees
///           that allocation.
/// Threads   Any number of threads may call concurrently.
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

    /// Queues or executes the free of a block of this shard. `from`: the shard of the calling
    /// thread, or null. `on`: the stream that may still use the block, or null.
    void free_remotely(stream const* on, void* p, std::size_t bytes, std::size_t alignment,
                       arena_shard* from = nullptr, call_site at = {}) noexcept {
        if (can_wait(on, from)) {
            if (remote_frees_.push({p, bytes, alignment, at, on != nullptr, on ? *on : stream{}})) {
                return;
            }
            drain_remote_frees();
        }
        free_now(on, p, bytes, alignment, at);
    }
    /// Frees a block of this shard. Reports the free if it is invalid.
    void free_now(stream const* on, void* p, std::size_t bytes, std::size_t alignment,
                  call_site at) noexcept {
        bool const was_out = on != nullptr ? core_.try_deallocate(*on, p, bytes, alignment)
                                           : core_.try_deallocate_sync(p, bytes, alignment);
        if (!was_out) { core_.refuse(p, bytes, alignment, on, at); }
    }

    /// Returns the pool of this shard. Does not execute the queued frees first.
    [[nodiscard]] Core&       core() noexcept { return core_; }
    [[nodiscard]] Core const& core() const noexcept { return core_; }

    /// Executes the queued frees by threads of other shards.
    void drain_remote_frees() noexcept {
        if (remote_frees_.any()) { drain_all(); }
    }

    /// Returns `p`, the address of a block that was just allocated. If the queue still has a free
    /// of this block, the program has freed the block twice. On the simulator (a platform without a
    /// GPU), the queued free is then removed and reported.
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
    /// Reports the queued free `n` as invalid. `stale`: the freed block was allocated again while
    /// `n` was queued. If `stale` is false, the caller must hold the pool's lock.
    [[gnu::cold, gnu::noinline]] void refuse(remote_free const& n, bool stale) noexcept {
        refused_free e{core_.name_, n.p, n.bytes, n.alignment, n.at};
        if (n.in_use && !is_destroyed<platform>(n.on)) { e.template on<platform>(&n.on); }
        stale ? (void)e.found_free() : core_.heap_.explain_refusal(e);
        e.template report<platform>();
        core_.seen().notify(memory_event_kind::free_refused, n.p, n.bytes,
                            n.in_use ? &n.on : nullptr, n.at);
    }
    /// Creates the record of the stream `s` in this pool, if there is none. Throws if the stream's
    /// id cannot be queried or host memory is lacking.
    void register_stream(stream s) {
        auto const held = core_.lock_.hold();
        core_.heap_.register_stream(s);
    }
    /// Returns true if a free may be queued, and false if it must be executed at once. `on`: the
    /// stream of the free, or null. `from`: the shard of the calling thread, or null.
    [[nodiscard]] bool can_wait(stream const* on, arena_shard* from) const noexcept {
        pool_options const& options = core_.options_;
        // Three kinds of frees must run in the calling thread. With `eager`, a free records an
        // event. With `graphs`, it queries a capture. The handle of a default stream may mean
        // another stream in another thread.
        return options.events == event_policy::lazy && !options.graphs &&
               (on == nullptr || (!is_default_stream<platform>(*on) && has_said(*on, from)));
    }
    /// Queries the unique id of the stream `s`. Returns false if the query fails: the free on `s`
    /// must then not be queued. `from`: the shard (pool) of the calling thread, or null.
    [[nodiscard]] static bool has_said(stream s, arena_shard* from) noexcept {
        // The query must come before the free is queued. When the free is executed, `s` may be in a
        // capture, during which CUDA forbids the query.
        try {
            from != nullptr ? from->register_stream(s) : (void)platform::id(s);
            return true;
        } catch (...) { return false; } // not queued: the free is executed and reports the error
    }

    Core core_;
    /// The queue of frees by threads of other shards. It has its own cache lines, because these
    /// threads write it.
    remote_free_list<platform> remote_frees_;
};

} // namespace detail
} // namespace vram
