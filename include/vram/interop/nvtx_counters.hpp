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
    /// A text that is put before the name of each counter group, to tell several stacks apart. With
    /// "GPU 1 ", the group of a `pool` is named "GPU 1 pool".
    std::string name;
    /// The NVTX tool, such as Nsight Systems, gets new values each time that the live or the
    /// reserved bytes have changed by at least this number of bytes.
    std::size_t step = 0;
    /// If true, the NVTX tool gets counters for each tag (see `tagged`) and for each resource.
    bool tags = true;
};

/// An observer that gives an NVTX tool, such as Nsight Systems, counters of live, reserved and peak
/// bytes: for each resource above the observer in the stack, and for each tag (see `tagged`).
///
///     pool<observed<stream_ordered<cuda_resource>, nvtx_counters>> memory;
///     auto mr = cuda_resource{} | with::stream_ordered | with::observed(nvtx_counters{}) |
///               with::pool;
///
/// In the NVTX domain "vram", the group "pool" has the counters of the pool. The group "pool:
/// train/optimizer" has those of the tag "train/optimizer". Resources with one name are counted
/// together. Marks of the program, refusals, retries and waits for freed memory are NVTX marks.
///
/// Nsight Systems records these counters from 2025.3 on, and draws them from 2026.3 on. Needs the
/// NVTX headers (CUDA 13.0 or later), and nothing is linked. If there is no tool when a resource
/// adds the first chunk (memory from its upstream), nothing is ever counted.
///
/// Failure   `observe` never throws. Blocks for which there is no host memory are not counted.
/// Threads   Any thread may call any function. The values are exact until allocations and frees
///           have changed the thread 256 times. Then live bytes and peak may be off by 1 MiB, or
///           1/128 of the peak if that is more, for each thread. A mark makes live bytes exact.
/// Cost      Without a tool one to three loads for each event. With a tool 35 to 100 ns for an
///           allocation and its free, and the time of the tool for each sample (see `step`).
class nvtx_counters {
public:
    /// Makes an observer. The counters of a resource are registered with the NVTX tool when the
    /// resource adds its first chunk (memory from its upstream).
    explicit nvtx_counters(nvtx_counters_options options = {})
        : books_{std::make_shared<detail::nvtx_counter_books>(
              std::move(options.name),
              static_cast<std::int64_t>(detail::smaller_of(options.step, ~std::size_t{0} / 2)),
              options.tags)} {}
    /// Copies of an observer share the counters. A move is a copy too, because a stack that was
    /// moved from may still call its observer.
    nvtx_counters(nvtx_counters const&) noexcept            = default;
    nvtx_counters& operator=(nvtx_counters const&) noexcept = default; ///< as the copy constructor

    /// Returns true if `other` is a copy of this observer, so that both share the counters. A
    /// resource over two stacks with such copies, such as `fallback`, notifies only one of them.
    [[nodiscard]] bool shares_with(nvtx_counters const& other) const noexcept {
        return books_ == other.books_;
    }

    /// Counts the event `e`.
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        books_->follow(e);
    }

    /// Returns true if `observe` ignores events of this kind. Until an NVTX tool has accepted
    /// counters, `observe` ignores each kind except `chunk_added`.
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept {
        return kind != memory_event_kind::chunk_added && !books_->attached();
    }

    /// Returns true if an NVTX tool, such as Nsight Systems, has accepted counters. Returns false
    /// before an observed resource adds its first chunk (memory from its upstream).
    [[nodiscard]] bool attached() const noexcept { return books_->attached(); }

private:
    std::shared_ptr<detail::nvtx_counter_books> books_;
};

} // namespace vram
