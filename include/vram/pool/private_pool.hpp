// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `private_pool` is a pool that a thread has for itself, as far as others let it.

#include <vram/base/error.hpp>           // report_error
#include <vram/concepts/is_alias.hpp>    // is_alias
#include <vram/pool/event_policy.hpp>    // event_policy
#include <vram/pool/returned_blocks.hpp> // returned_blocks

#include <cstddef> // size_t, byte

namespace vram {

/// A `pool` to which others give blocks back without its lock: they leave them, and who has the
/// pool takes them in when it needs memory. What lies there counts as handed out, so whoever asks
/// the pool anything has it `collect` before. They are given back at once where it matters when:
/// with events of their own, where captures are looked for, and on a default stream, whose name
/// means another stream for the thread that takes them in.
///
/// Failure   a foreign pointer, a double free and a wrong size are reported when they are taken in
/// Threads   `leave` and `collect` any, at once; the rest as the pool
/// Cost      `leave` that of a brief lock; when 256 are left, the pool's lock, for all of them
template <class Pool>
class private_pool : public Pool {
public:
    using typename Pool::platform;
    using typename Pool::stream;

    using Pool::Pool;
    private_pool(private_pool&&) = delete; ///< others know where it is
    ~private_pool() { collect(); }

    /// Gives a block back from afar, which `on` may still be using; null: nobody is.
    void leave(stream const* on, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (can_wait(on)) {
            if (returned_.leave({p, bytes, alignment, on != nullptr, on ? *on : stream{}})) {
                return;
            }
            collect();
        }
        bool const was_out = on != nullptr ? this->try_deallocate(*on, p, bytes, alignment)
                                           : this->try_deallocate_sync(p, bytes, alignment);
        if (was_out) { return; }
        report_error({.kind = mishap::foreign_pointer, .pointer = p, .bytes = bytes});
    }
    /// Takes in what was left, with the lock taken once. Cost: a load where nothing was.
    void collect() noexcept {
        if (returned_.any()) { this->take_back(returned_); }
    }

private:
    [[nodiscard]] bool can_wait(stream const* on) const noexcept {
        auto const& options = this->options();
        return options.events == event_policy::lazy && !options.graphs &&
               (on == nullptr || !is_alias<platform>(*on));
    }

    std::byte                 between_[64]; ///< keeps others off the lines that the owner writes to
    returned_blocks<platform> returned_;
};

} // namespace vram
