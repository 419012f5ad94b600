// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `private_pool` is a pool that a thread has for itself, as far as others let it.

#include <vram/base/call_site.hpp>             // call_site
#include <vram/concepts/is_default_stream.hpp> // is_default_stream
#include <vram/concepts/is_ending.hpp>         // is_ending
#include <vram/pool/event_policy.hpp>          // event_policy
#include <vram/pool/pool_options.hpp>          // pool_options
#include <vram/pool/returned_blocks.hpp>       // returned_blocks

#include <cstddef> // size_t
#include <utility> // forward, move

namespace vram {

/// A `pool` to which others give blocks back without its lock: they leave them, and who has the
/// pool takes them in when it needs memory, or gives one back that may be there. What lies there
/// counts as handed out, so whoever asks the pool anything has it `collect` before. They are given
/// back at once where it matters when: with events of their own, where captures are looked for, and
/// on a default stream, whose name means another stream for the thread that takes them in; also
/// where the stream cannot say who it is.
///
/// Failure   a foreign pointer, a double free and a wrong size are reported when they are taken in;
///           over a `registered_source` a block that was handed out after it was left stays with
///           who has it then. Of two who give a block back one after the other the first is
///           believed
/// Threads   `leave` and `collect` any, at once; the rest as the pool
/// Cost      `leave` that of a brief lock, and that of the pool `from`; without such a pool the
///           stream is asked for its id. When 256 are left, the pool's lock, for all of them. A
///           free looks at a word that others write to
template <class Pool>
class private_pool : public Pool {
public:
    using typename Pool::platform;
    using typename Pool::stream;

    using upstream_type = typename Pool::upstream_type;

    /// As a pool is made.
    template <class... Growth>
    explicit private_pool(upstream_type upstream, pool_options options = {}, Growth&&... growth)
        : Pool{std::move(upstream), options, std::forward<Growth>(growth)...} {
        if constexpr (Pool::is_private) { this->count_left(returned_.left()); }
    }
    private_pool(private_pool&&) = delete; ///< others know where it is
    ~private_pool() {
        if (!is_ending<platform>()) { collect(); }
    }

    /// Gives a block back from afar, which `on` may still be using; null: nobody is. `from`: the
    /// private pool of who does, or null where there is none.
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

    // As the pool does, behind what was left, where this block may have been: who left it gave it
    // back before, and may still be using it.

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

    /// Takes in what was left, with the lock taken once. Cost: a load where nothing was.
    void collect() noexcept {
        if (returned_.any()) { this->take_back(returned_); }
    }

private:
    [[nodiscard]] bool can_wait(stream const* on, private_pool* from) const noexcept {
        auto const& options = this->options();
        return options.events == event_policy::lazy && !options.graphs &&
               (on == nullptr || (!is_default_stream<platform>(*on) && has_said(*on, from)));
    }
    /// Whether a stream has said who it is. When its block is taken in it may be captured, and not
    /// be asked for the first time: the block would be lost. So who leaves it asks, and has a pool
    /// of its own know the stream, so as to ask once and not with each block. To note the handle
    /// asked last would not do: a new stream may have that, would be taken for the one before, and
    /// that one's device be waited for. Pools forget a stream that is retired, as each must be
    /// before it ends.
    [[nodiscard]] static bool has_said(stream s, private_pool* from) noexcept {
        try {
            from != nullptr ? from->meet(s) : (void)platform::id(s);
            return true;
        } catch (...) { return false; } // it comes back at once, where that is told
    }

    returned_blocks<platform> returned_; ///< on lines of its own: others write there
};

} // namespace vram
