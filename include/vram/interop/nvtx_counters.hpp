// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_counters` is an observer that shows the memory of resources in Nsight Systems.

#include <vram/base/core/smaller_of.hpp> // smaller_of
#include <vram/concepts/observer.hpp>    // memory_event, memory_event_kind
#include <vram/interop/core/nvtx_counter_books.hpp>

#include <cstddef>
#include <cstdint>
#include <memory> // shared_ptr, make_shared
#include <string> // string

namespace vram {

/// Options of `nvtx_counters`.
struct nvtx_counters_options {
    /// A prefix of all names, to tell several stacks apart: "GPU 1 " gives "GPU 1 pool".
    std::string name;
    /// The least change of the live or the reserved bytes after which the tool, such as Nsight
    /// Systems, gets new values.
    std::size_t step = 0;
    /// If true, the tool gets counters for each tag too, besides those for each resource.
    bool tags = true;
};

/// An observer that gives a tool of NVTX, such as Nsight Systems, counters of live, reserved and
/// peak bytes: for each resource above it in the stack, and for each tag (see `tagged`).
///
///     pool<observed<stream_ordered<cuda_resource>, nvtx_counters>> memory;
///     auto mr = cuda_resource{} | with::stream_ordered | with::observed(nvtx_counters{}) |
///               with::pool;
///
/// In the domain "vram", a group "pool" has the counters of the pool, a group "pool:
/// train/optimizer" those of a tag. Resources with one name are counted together. Marks of the
/// program, refusals, retries and waits for freed memory are NVTX marks.
///
/// Nsight Systems records these counters from 2025.3 on, and draws them from 2026.3 on. Needs the
/// NVTX headers (CUDA 13.0 or later), and nothing is linked. If there is no tool when the first
/// chunk is added, nothing is ever counted.
///
/// Failure   `observe` never throws. Blocks for which there is no host memory are not counted.
/// Threads   Any thread may call any function. Values are exact until 256 events came from another
///           thread than the event before. Then live bytes and peak may be off, for each thread by
///           1 MiB or 1/128 of the peak, whichever is more. A mark corrects the live bytes.
/// Cost      Without a tool one to three loads for each event. With a tool 35 to 100 ns for
///           an allocation and its free, and the time of the tool for each sample (see `step`).
class nvtx_counters {
public:
    /// Creates an observer. The counters of a resource are registered with the tool when the
    /// resource adds its first chunk.
    explicit nvtx_counters(nvtx_counters_options options = {})
        : books_{std::make_shared<detail::nvtx_counter_books>(
              std::move(options.name),
              static_cast<std::int64_t>(detail::smaller_of(options.step, ~std::size_t{0} / 2)),
              options.tags)} {}
    /// Copies share the counters. A move is a copy, so that the observer of a stack that was
    /// moved from may still be called.
    nvtx_counters(nvtx_counters const&) noexcept            = default;
    nvtx_counters& operator=(nvtx_counters const&) noexcept = default; ///< shares the counters

    /// Returns true if `other` shares the counters, as copies do. A resource over two such
    /// observers, such as `fallback`, then notifies only one of both.
    [[nodiscard]] bool shares_with(nvtx_counters const& other) const noexcept {
        return books_ == other.books_;
    }

    /// Counts the event `e`.
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        books_->follow(e);
    }

    /// Returns true if an event of this kind is ignored: each kind except `chunk_added`, until a
    /// tool has accepted counters.
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept {
        return kind != memory_event_kind::chunk_added && !books_->attached();
    }

    /// Returns true if a tool, such as Nsight Systems, has accepted counters. Returns false before
    /// a resource adds its first chunk.
    [[nodiscard]] bool attached() const noexcept { return books_->attached(); }

private:
    std::shared_ptr<detail::nvtx_counter_books> books_;
};

} // namespace vram
