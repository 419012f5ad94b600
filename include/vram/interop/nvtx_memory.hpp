// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_memory` is an observer with which compute-sanitizer checks each block of a pool.

#include <vram/concepts/observer.hpp> // memory_event, memory_event_kind
#include <vram/interop/core/nvtx_heap_books.hpp>

#include <memory> // shared_ptr, make_shared

namespace vram {

/// An observer that tells compute-sanitizer the blocks of pools. Without this observer, the
/// sanitizer knows only the chunks (memory from an upstream) that pools divide. It then misses a
/// write past the end of a block within a chunk.
///
///     pool<observed<stream_ordered<cuda_resource>, nvtx_memory>> memory;
///     // compute-sanitizer ./program                   reads and writes outside of blocks
///     // compute-sanitizer --tool initcheck ./program  reads of memory that was never written
///
/// For the sanitizer, a block ends when the program frees it. The sanitizer may then report a
/// kernel that still uses the block: `--force-blocking-launches` prevents this. A new block is
/// uninitialised, also in reused memory. Memory that a captured graph may use stays accessible. If
/// the tool refuses a chunk, only accesses outside of the whole chunk are found. Needs the NVTX
/// headers (CUDA 13.0 or later), and nothing is linked.
///
/// Failure   `observe` never throws. Without host memory for a block, only accesses outside of the
///           whole chunk are found.
/// Threads   Any thread may call any function. Copies share the registered chunks and blocks.
/// Cost      Without a tool one to three loads for each event. With a tool a lock, a search among
///           all blocks, and a call of the tool.
class nvtx_memory {
public:
    /// Makes an observer. Each chunk (memory from an upstream) that a resource adds from now on is
    /// registered with the NVTX tool, such as compute-sanitizer.
    nvtx_memory() : books_{std::make_shared<detail::nvtx_heap_books>()} {}
    /// Copies of an observer share the registered chunks and blocks. A move is a copy too, because
    /// a stack that was moved from may still call its observer.
    nvtx_memory(nvtx_memory const&) noexcept            = default;
    nvtx_memory& operator=(nvtx_memory const&) noexcept = default; ///< as the copy constructor

    /// Returns true if `other` is a copy of this observer and shares the registered memory. A
    /// resource over two stacks with such copies, such as `fallback`, notifies only one.
    [[nodiscard]] bool shares_with(nvtx_memory const& other) const noexcept {
        return books_ == other.books_;
    }

    /// Tells the NVTX tool about the event `e`, such as an allocated or freed block, or an added or
    /// removed chunk (memory from an upstream).
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        if (!skips(e.kind)) { books_->follow(e); }
    }
    /// Returns true if `observe` ignores events of this kind. While no chunk is registered with an
    /// NVTX tool, `observe` ignores each kind except `chunk_added` and `pages_mapped`.
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept {
        return kind != memory_event_kind::chunk_added && !books_->active() &&
               kind != memory_event_kind::pages_mapped;
    }

    /// Removes the chunks from the NVTX tool that stayed registered for captured graphs. The layer
    /// `observed` calls this before `forget_captures` of the upstream frees their memory.
    void forget_captures() noexcept { books_->forget_captures(); }

    /// Returns true if an NVTX tool, such as compute-sanitizer, checks accesses to at least one
    /// chunk of the observed resources.
    [[nodiscard]] bool attached() const noexcept { return books_->active(); }

private:
    std::shared_ptr<detail::nvtx_heap_books> books_;
};

} // namespace vram
