// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `whole_chunks` lets a pool grow by chunks that never change.

#include <vram/concepts/resource.hpp> // synchronous_resource
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/stream_heap.hpp>
#include <vram/pool/pool_options.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Chunks that cannot grow and are returned to the upstream as a whole. Implements the concept
/// `chunk_growth` for every upstream without virtual memory.
///
/// Threads   One thread at a time, which holds the pool's lock.
template <synchronous_resource Upstream>
class whole_chunks {
public:
    using platform = typename Upstream::platform;
    using heap     = stream_heap<platform>;
    using guard    = typename heap::guard;
    using request  = typename heap::request;
    using chunk    = typename heap::chunk;

    /// True: a pool may return chunks without a live block to the upstream before its reserved
    /// bytes reach a new peak.
    static constexpr bool idle_chunks_make_room = true;

    whole_chunks(Upstream const&, pool_options const& options) {
        detail::expect_no_page_options(
            options, "pool: `remap` and `slack` have an effect over virtual memory only; write "
                     "pool<virtual_resource>, or leave them out");
    }
    static void attach(heap&) noexcept {}

    static constexpr std::size_t unit() noexcept { return bins::granule; }
    static std::size_t           chunk_size(std::size_t bytes) noexcept { return bytes; }
    static void                  add(void*, std::size_t) noexcept {}
    static std::size_t           remove(chunk const& gone) noexcept { return gone.bytes; }

    template <class Core>
    static void* grow_in_place(Core&, request const&, bool, bool) noexcept {
        return nullptr;
    }
    template <class Core>
    static void* take_partly_backed(Core&, request const&, bool, guard&) noexcept {
        return nullptr;
    }
    /// Returns null: a small block is never allocated between large blocks here, because it would
    /// keep the whole chunk from being returned to the upstream.
    template <class Core>
    static void* take_in_hole(Core&, request const&) noexcept {
        return nullptr;
    }
    static bool await_others(guard&) noexcept { return false; }
    template <class Core>
    static std::size_t trim_within(Core&, std::size_t, guard&) noexcept {
        return 0;
    }
    static std::size_t resident(block const& b) noexcept { return b.bytes; }
};

} // namespace detail
} // namespace vram
