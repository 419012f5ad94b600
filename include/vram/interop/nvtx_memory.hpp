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
/// Each chunk is a heap of the memory part of NVTX, and each block a region with the requested
/// size. The region ends at the call of the free, also of a free in stream order: if a kernel that
/// was launched before may still run then, use `--force-blocking-launches`. A new block is
/// uninitialised for the sanitizer, also in reused memory. Memory that is freed in a stream
/// capture, and memory of a `monotonic` that a capture allocated, stays a region for the graph,
/// until it is allocated outside of captures or its chunk ends outside of captures. If several
/// resources notify the observer, the blocks of the uppermost are the regions. A region has the tag
/// of the allocating thread as its name. The blocks that are live when their resource ends are not
/// reported by the sanitizer: see `tracking`.
///
/// The observer knows the chunks that were added since it was given to the stack. A chunk that the
/// tool refuses, as it may do for memory of the host or virtual memory, is checked as a whole. A
/// chunk of virtual memory that grew has several heaps, and a block across their border one region
/// in each. NVTX consists of headers (CUDA 13.0 or later); nothing is linked.
///
/// Failure   `observe` never throws. Without host memory for a block, its chunk is checked as a
///           whole.
/// Threads   Any thread may call any function at any time. Copies share the regions.
/// Cost      Without a tool one load for each event, three for an allocation. With a tool a lock, a
///           search among all blocks, and a call of the tool.
class nvtx_memory {
public:
    /// Creates an observer. Chunks (memory from an upstream) that are added later are registered
    /// with the tool, such as compute-sanitizer.
    nvtx_memory() : books_{std::make_shared<detail::nvtx_heap_books>()} {}
    /// Copies share the regions. A move is a copy, so that the observer of a stack that was
    /// moved from may still be called.
    nvtx_memory(nvtx_memory const&) noexcept            = default;
    nvtx_memory& operator=(nvtx_memory const&) noexcept = default; ///< also shares the regions

    /// Returns true if `other` is a copy, which shares the regions. A resource over two upstreams
    /// (`fallback`, `segregated`) then notifies one of them.
    [[nodiscard]] bool shares_with(nvtx_memory const& other) const noexcept {
        return books_ == other.books_;
    }

    /// Registers or removes the block or chunk of the event `e`.
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        if (!skips(e.kind)) { books_->follow(e); }
    }
    /// Returns true for an event that `observe` ignores: while no tool checks a chunk, any except
    /// `chunk_added` and `pages_mapped`.
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept {
        return kind != memory_event_kind::chunk_added && !books_->active() &&
               kind != memory_event_kind::pages_mapped;
    }

    /// Called by the layer `observed` before `forget_captures` of the upstream. Removes from the
    /// tool the chunks that stayed registered after a stream capture removed them, because the
    /// captured graph may use the memory. Also removes such chunks of other stacks with this
    /// observer.
    void forget_captures() noexcept { books_->forget_captures(); }

    /// Returns true if an NVTX tool, such as compute-sanitizer, checks the accesses to at least one
    /// chunk of the observed resources. Returns false if there is no tool, and before a resource
    /// adds its first chunk.
    [[nodiscard]] bool attached() const noexcept { return books_->active(); }

private:
    std::shared_ptr<detail::nvtx_heap_books> books_;
};

} // namespace vram
