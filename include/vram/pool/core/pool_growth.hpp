// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_growth` decides when a pool allocates a chunk, how large it is, and when idle chunks are
/// returned for it.

#include <vram/base/align.hpp>    // align, saturating_add, unsatisfiable
#include <vram/base/contract.hpp> // expects
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/expandable.hpp> // remappable_resource
#include <vram/concepts/growth.hpp>     // growth, growth_request
#include <vram/concepts/observer.hpp>   // memory_event_kind
#include <vram/concepts/powers.hpp>     // reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/chunk_sizes.hpp>
#include <vram/pool/core/paged_chunks.hpp>
#include <vram/pool/core/whole_chunks.hpp>
#include <vram/pool/pool_options.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

template <class Upstream>
struct chunks_over {
    using type = whole_chunks<Upstream>;
};
template <remappable_resource Upstream>
struct chunks_over<Upstream> {
    using type = paged_chunks<Upstream>;
};

/// The chunks of a pool and its growth policy. Functions get the `pool_core` as argument.
///
/// Failure   Exceptions of the upstream and of the growth policy are rethrown; nothing has changed
///           then.
/// Threads   Any number of threads may call concurrently. Functions with a `guard` parameter need
///           the lock.
template <synchronous_resource Upstream, growth Policy>
class pool_growth {
public:
    using model   = typename chunks_over<Upstream>::type;
    using heap    = typename model::heap;
    using guard   = typename model::guard;
    using stream  = typename model::platform::stream;
    using request = typename model::request;
    using chunk   = typename model::chunk;

    pool_growth(Upstream const& up, pool_options const& options, Policy policy)
        : sizes_{std::move(policy)}, chunks_{up, options} {}

    /// Returns the object that grows the pool's chunks and records their memory.
    [[nodiscard]] model&       chunks() noexcept { return chunks_; }
    [[nodiscard]] model const& chunks() const noexcept { return chunks_; }

    /// Returns the size of the next chunk in bytes: the size that the growth policy chooses, or
    /// less if `max_size` leaves less room. The result is at least `wish.needed`. If the size would
    /// exceed `bins::largest`, the result is `wish.needed`.
    template <class Core>
    [[nodiscard]] std::size_t wanted(Core const& core, request const& r,
                                     growth_request wish) const {
        return sizes_.wanted(core, r.on, wish, chunks_.unit(), bins::largest);
    }
    /// Allocates the first chunk: `bytes`, or as much as `max_size` permits. Throws `out_of_memory`
    /// if the limit permits no chunk.
    template <class Core>
    void reserve(Core& core, std::size_t bytes) {
        expects(bytes <= core.options_.max_size, "pool: `initial_size` must not exceed `max_size`");
        request const all{.asked = bytes};
        if (!all.possible()) { throw out_of_memory{{.asked = all.asked, .rounded = all.bytes}}; }
        std::size_t const most = core.options_.max_size - core.options_.max_size % chunks_.unit();
        new_chunk<true>(core, all, all.bytes < most || most == 0 ? all.bytes : most, nullptr);
        // No chunk was allocated, because `max_size` is too small for one.
        if (core.heap_.blocks().empty()) {
            throw out_of_memory{
                {.asked = all.asked, .rounded = all.bytes, .limit = core.options_.max_size}};
        }
    }
    /// First tries `grow_in_place`, which maps memory to a free block or behind a chunk and
    /// allocates `r` there. If that fails, allocates `r` in a new chunk. Returns null if both fail.
    template <class Core>
    void* enlarge(Core& core, request const& r, bool captured) {
        if (void* const p = chunks_.grow_in_place(core, r, captured, true)) { return p; }
        std::size_t const size = wanted(core, r, {.needed = r.bytes, .held = held_bytes(core, r)});
        if (!captured && r.bytes > core.heap_.blocks().small_size) { make_way(core, size); }
        return stepping_down(size, r.bytes, [&](std::size_t n) {
            return new_chunk<false>(core, r, align(n, bins::granule), &r);
        });
    }
    /// Allocates a chunk of at least `size` bytes from the upstream. If `out` is not null,
    /// allocates the request `*out` in that chunk and returns its address. Otherwise returns null.
    /// Also returns null if `max_size` has no room for the chunk. If the upstream refuses the
    /// chunk, throws if `Throwing` is true, and otherwise returns null.
    template <bool Throwing, class Core>
    void* new_chunk(Core& core, request const& r, std::size_t size, request const* out) {
        size                          = chunks_.chunk_size(size);
        std::size_t const   alignment = r.chunk_alignment();
        stream const* const order     = Core::order_of(r.on);
        return core.budget_.template grow<Throwing>(
            core.seen(), core.lock_, core.upstream(), size, alignment, order, [&](void* at) {
                if constexpr (remappable_resource<Upstream>) {
                    core.seen().notify(memory_event_kind::pages_mapped, at, size);
                }
                chunks_.add(at, size);
                try {
                    return core.heap_.add(at, size, alignment, order, out);
                } catch (...) {
                    chunks_.remove({.base = at});
                    throw;
                }
            });
    }
    /// Allocates the block for `r` in a new chunk. The stream of `r` can use the chunk without a
    /// wait. Returns null if no such chunk can be allocated.
    template <class Core>
    void* ready_chunk(Core& core, request const& r)
        requires reusing_resource<Upstream>
    {
        std::size_t size = r.bytes;
        if constexpr (!Policy::asks_device) {
            size = align(wanted(core, r, {.needed = r.bytes, .held = held_bytes(core, r)}),
                         bins::granule);
        }
        // First tries to return unused chunks. The upstream can reuse their memory for the new
        // chunk.
        if (r.bytes > core.heap_.blocks().small_size) { make_way(core, size, 4); }
        if (size > r.bytes) {
            if (void* const p = ready_chunk(core, r, size)) { return p; }
        }
        return ready_chunk(core, r, r.bytes);
    }
    /// Returns the chunk `gone`, which was removed from the heap, to the upstream. Adds the size of
    /// its physical memory to `back`. Returns false if `gone` is no chunk (0 bytes).
    template <class Core>
    bool give_chunk_back(Core& core, chunk const& gone, guard& held, std::size_t& back) {
        if (gone.bytes == 0) { return false; }
        std::size_t const bytes = chunks_.remove(gone);
        back += bytes;
        core.budget_.give_back(bytes, held, [&] {
            core.seen().notify(memory_event_kind::chunk_removed, gone.base, gone.bytes);
            sited{core.upstream()}.deallocate_sync(gone.base, gone.bytes, gone.alignment);
        });
        return true;
    }
    /// Returns chunks without a live block, and free pages, to the upstream while more than `keep`
    /// bytes are free. The host waits for streams if necessary. Returns the number of bytes given
    /// back.
    template <class Core>
    std::size_t trim(Core& core, std::size_t keep) {
        std::size_t back = 0;
        auto        held = core.lock_.hold();
        core.heap_.poll();
        // If `keep` is not 0, unmaps single pages first, because the return of a whole chunk could
        // leave less than `keep` bytes. Otherwise whole chunks go first: this needs fewer calls.
        if (keep != 0) { back += chunks_.trim_within(core, keep, held); }
        for (bool waited = false; core.unused() > keep;) {
            if (give_chunk_back(core, core.heap_.remove_idle(held), held, back)) { continue; }
            if (std::exchange(waited, true)) { break; }
            // Waits for streams and coalesces free blocks. A whole chunk may be free after that.
            core.heap_.finish(held);
        }
        return back + chunks_.trim_within(core, keep, held);
    }
    /// Gives chunks back to the upstream that have no live block and that no stream uses. Does not
    /// wait for streams. Returns the number of bytes of physical memory given back.
    template <class Core>
    std::size_t trim_no_wait(Core& core) {
        std::size_t back = 0;
        auto        held = core.lock_.hold();
        core.heap_.poll_idle();
        while (give_chunk_back(core, core.heap_.remove_ready(), held, back)) {}
        return back;
    }

private:
    template <class Core>
    [[nodiscard]] static std::size_t held_bytes(Core const& core, request const& r) {
        auto const held = core.lock_.hold();
        return core.heap_.blocks().of(r.bytes).chunks().reserved();
    }
    template <class Core>
    void* ready_chunk(Core& core, request const& r, std::size_t size)
        requires reusing_resource<Upstream>
    {
        std::size_t const alignment = r.chunk_alignment();
        return core.budget_.grow_ready(
            core.seen(), core.lock_, core.upstream(), size, alignment, *r.on,
            [&](void* at) { return core.heap_.add(at, size, alignment, r.on, &r); });
    }
    /// Gives unused chunks back to the upstream before the pool reserves `size` more bytes. An
    /// unused chunk has no live block, and no stream uses it. Does nothing unless the reserved
    /// bytes would exceed their highest number so far and also 9/8 of the peak of live bytes. Makes
    /// at most `tries` attempts.
    template <class Core>
    void make_way(Core& core, std::size_t size, int tries = 64) {
        if constexpr (!model::idle_chunks_make_room) { return; }
        auto              held = core.lock_.hold();
        std::size_t const eighth =
            saturating_add(core.heap_.most_live(), core.heap_.most_live() / 8);
        std::size_t const then = saturating_add(core.budget_.usage.reserved, size);
        if (then <= core.budget_.most_reserved() || then <= eighth) { return; }
        std::size_t back = 0;
        core.heap_.poll_idle();
        for (; tries != 0 && core.heap_.has_idle(); --tries) {
            if (!give_chunk_back(core, core.heap_.remove_ready(), held, back)) {
                core.heap_.ask_streams();
                held.unlock(); // lets other threads take the lock before the next attempt
                held.lock();
            } else if (saturating_add(core.budget_.usage.reserved, size) <=
                       core.budget_.most_reserved()) {
                return;
            }
        }
    }

    [[no_unique_address]] chunk_sizes<Upstream, Policy> sizes_;
    [[no_unique_address]] model                         chunks_;
};

} // namespace detail
} // namespace vram
