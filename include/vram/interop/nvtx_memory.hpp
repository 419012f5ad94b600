// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_memory` is an observer with which compute-sanitizer checks each block of a pool.

#include <vram/concepts/observer.hpp> // memory_event, memory_event_kind
#include <vram/interop/core/nvtx_heap_books.hpp>

#include <memory> // shared_ptr, make_shared

namespace vram {

/// An observer that tells compute-sanitizer of the blocks of pools. Without it, the sanitizer knows
/// only the chunks, and does not see that a kernel writes past the end of a block within a chunk.
///
///     pool<observed<stream_ordered<cuda_resource>, nvtx_memory>> memory;
///     // compute-sanitizer ./program                   reads and writes outside of blocks
///     // compute-sanitizer --tool initcheck ./program  reads of memory that was never written
///
/// For the sanitizer, a block ends at the call of its free: if a kernel that was launched before
/// may still run then, use `--force-blocking-launches`. A new block is uninitialised, also in
/// reused memory. Memory that a captured graph may use stays accessible. A chunk that the tool
/// refuses is checked as a whole. Needs the NVTX headers (CUDA 13.0 or later), and nothing is
/// linked.
///
/// Failure   `observe` never throws. Without host memory for a block, its chunk is checked as a
///           whole.
/// Threads   Any thread may call any function. Copies share the regions.
/// Cost      Without a tool one to three loads for each event. With a tool a lock, a search among
///           all blocks, and a call of the tool.
class nvtx_memory {
public:
    /// Makes an observer, which registers with the tool (such as compute-sanitizer) each chunk
    /// (memory from an upstream) that is added from now on.
    nvtx_memory() : books_{std::make_shared<detail::nvtx_heap_books>()} {}
    /// Copies share the regions. A move is a copy, so that the observer of a stack that was
    /// moved from may still be called.
    nvtx_memory(nvtx_memory const&) noexcept            = default;
    nvtx_memory& operator=(nvtx_memory const&) noexcept = default; ///< also shares the regions

    /// Returns true if `other` shares the regions, as copies do. A resource over two such
    /// observers, such as `fallback`, then notifies only one of both.
    [[nodiscard]] bool shares_with(nvtx_memory const& other) const noexcept {
        return books_ == other.books_;
    }

    /// Registers or removes the block or chunk of the event `e`.
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        if (!skips(e.kind)) { books_->follow(e); }
    }
    /// Returns true for an event that `observe` ignores: while no chunk is registered with a tool,
    /// any except `chunk_added` and `pages_mapped`.
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept {
        return kind != memory_event_kind::chunk_added && !books_->active() &&
               kind != memory_event_kind::pages_mapped;
    }

    /// Unregisters the chunks kept for captured graphs from the tool, in all stacks that share this
    /// observer. The layer `observed` calls it before `forget_captures` of its upstream.
    void forget_captures() noexcept { books_->forget_captures(); }

    /// Returns true if an NVTX tool, such as compute-sanitizer, checks accesses to at least one
    /// chunk of the observed resources.
    [[nodiscard]] bool attached() const noexcept { return books_->active(); }

private:
    std::shared_ptr<detail::nvtx_heap_books> books_;
};

} // namespace vram
