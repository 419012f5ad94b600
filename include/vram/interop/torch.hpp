// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `torch_allocator` has the functions that PyTorch's `CUDAPluggableAllocator` calls, over a stack
/// for each device. CuPy and Numba can call them, too.

#include <vram/base/contract.hpp>           // expects
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/concepts/platform.hpp>
#include <vram/concepts/powers.hpp> // trimmable_resource
#include <vram/concepts/resource.hpp>

#include <algorithm>     // find
#include <array>         // array
#include <atomic>        // atomic
#include <concepts>      // same_as
#include <cstddef>       // size_t
#include <functional>    // function
#include <list>          // list
#include <memory>        // unique_ptr
#include <mutex>         // mutex, lock_guard
#include <type_traits>   // invoke_result_t
#include <unordered_map> // unordered_map
#include <utility>       // declval, move
#include <vector>        // vector

namespace vram {

/// A stack for each device, with the functions of an allocator of PyTorch.
///
///     static auto& memory = *new torch_allocator{
///         [](cuda_device d) { return pool{stream_ordered{cuda_resource{d}}}; }};
///     extern "C" void* my_malloc(ssize_t n, int d, cudaStream_t s) {
///         return memory.allocate(cuda_device{d}, s, static_cast<std::size_t>(n));
///     }
///     extern "C" void my_free(void* p, ssize_t n, int d, cudaStream_t s) {
///         memory.deallocate(cuda_device{d}, s, p, static_cast<std::size_t>(n));
///     }
///     extern "C" void my_record_stream(void* p, cudaStream_t s) { memory.record_stream(p, s); }
///
/// The stack of a device is made when its memory is first requested. PyTorch frees tensors until
/// the process has ended, so the object must never be destroyed: hold it by a reference to a `new`
/// one.
///
/// Failure   `allocate` throws the exceptions of the stack. `deallocate` reports errors to the
///           error sink.
/// Threads   Any thread may call, if any thread may call the stack.
/// Streams   A block is allocated and freed on the stream that PyTorch passes. If other streams use
///           it as well, `record_stream` announces each of them. The free then takes effect after
///           the work of all these streams, and delays none of them. During a graph capture, the
///           free of such a block waits until the capture has ended.
/// Cost      Two changes of the current device, besides the cost of the stack. The free of a block
///           with recorded streams adds an event for each stream.
template <resource R>
class torch_allocator {
public:
    using resource_type = R;
    using platform      = typename R::platform;
    using device        = typename platform::device;
    using stream        = typename platform::stream;

    /// The largest number of devices.
    static constexpr std::size_t most_devices = 64;

    /// Makes an allocator that makes the stack of the device `d` by `make(d)`.
    template <class Make>
        requires std::same_as<std::invoke_result_t<Make&, device>, R>
    explicit torch_allocator(Make make)
        : make_{[make](device d) { return std::unique_ptr<R>{new R(make(d))}; }} {}
    torch_allocator(torch_allocator&&) = delete;
    /// Waits for the devices, and makes the frees that captures have delayed.
    ~torch_allocator() {
        for (auto& each : parts_) {
            part* const it = each.load();
            if (it == nullptr) { continue; }
            try {
                platform::synchronize(it->where);
            } catch (...) { detail::report_failed_call("waiting for a device"); }
            for (late_free const& late : it->late) {
                it->stack->deallocate(late.on, late.p, late.bytes);
            }
            delete it;
        }
    }

    /// Allocates `bytes` bytes of the device `d` on the stream `s`.
    [[nodiscard]] void* allocate(device d, stream s, std::size_t bytes) {
        typename platform::device_guard const on{d};
        part&                                 here = of(d);
        if (here.waiting.load(std::memory_order_relaxed) != 0) { free_late(here); }
        return here.stack->allocate(s, bytes);
    }
    /// Frees a block of the device `d`, which was allocated on the stream `s`.
    void deallocate(device d, stream s, void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { return; }
        try {
            typename platform::device_guard const on{d};
            part&                                 here = of(d);
            late_free                             late{p, bytes, s, recorded_on(p)};
            if (late.others.empty()) { return here.stack->deallocate(s, p, bytes); }
            free_after(here, std::move(late));
        } catch (...) { detail::report_failed_call("freeing a block of PyTorch"); }
    }
    /// Announces that `s` uses the block at `p`: its free takes effect after the work that is
    /// enqueued on `s` before the free.
    void record_stream(void const* p, stream s) {
        if (p == nullptr) { return; }
        std::lock_guard const lock{mutex_};
        auto&                 streams = recorded_[p];
        if (std::find(streams.begin(), streams.end(), s) == streams.end()) { streams.push_back(s); }
        any_recorded_.store(recorded_.size(), std::memory_order_relaxed);
    }

    /// Returns the stack of the device `d`, and makes it if necessary.
    [[nodiscard]] R& stack(device d) {
        typename platform::device_guard const on{d};
        return *of(d).stack;
    }
    /// Returns unused memory of every stack to its device. Returns the number of bytes.
    std::size_t trim()
        requires trimmable_resource<R>
    {
        std::size_t total = 0;
        for (auto& each : parts_) {
            part* const it = each.load(std::memory_order_acquire);
            if (it == nullptr) { continue; }
            typename platform::device_guard const on{it->where};
            free_late(*it);
            total += it->stack->trim();
        }
        return total;
    }

private:
    /// The free of a block on the stream `on`, which also waits for the work of the streams
    /// `others`.
    struct late_free {
        void*               p     = nullptr;
        std::size_t         bytes = 0;
        stream              on{};
        std::vector<stream> others;
    };
    /// The resource for the memory of one device, with its lock.
    struct part {
        explicit part(device d, std::unique_ptr<R> made)
            : where{d}, stack{std::move(made)}, joined{d} {}

        device                        where;
        std::unique_ptr<R>            stack;
        typename platform::own_stream joined; ///< waits for all streams of a block
        std::mutex                    mutex;
        std::list<late_free>          late; ///< frees that are kept until the end of a capture
        std::atomic<std::size_t>      waiting{0};
    };

    [[nodiscard]] part& of(device d) {
        std::size_t const index = number_of(d);
        expects(index < most_devices, "torch_allocator: the number of the device is too large");
        part* found = parts_[index].load(std::memory_order_acquire);
        if (found != nullptr) [[likely]] { return *found; }
        std::lock_guard const lock{mutex_};
        found = parts_[index].load(std::memory_order_acquire);
        if (found == nullptr) {
            found = new part{d, make_(d)};
            parts_[index].store(found, std::memory_order_release);
        }
        return *found;
    }
    [[nodiscard]] static std::size_t number_of(device d) {
        if constexpr (requires(device const& x) { x.ordinal(); }) {
            return static_cast<std::size_t>(d.ordinal());
        } else {
            return static_cast<std::size_t>(d.index());
        }
    }

    /// Returns the recorded streams of the block at `p`, and forgets them.
    [[nodiscard]] std::vector<stream> recorded_on(void* p) {
        if (any_recorded_.load(std::memory_order_relaxed) == 0) [[likely]] { return {}; }
        std::lock_guard const lock{mutex_};
        auto const            found = recorded_.find(p);
        if (found == recorded_.end()) { return {}; }
        std::vector<stream> streams = std::move(found->second);
        recorded_.erase(found);
        any_recorded_.store(recorded_.size(), std::memory_order_relaxed);
        return streams;
    }

    /// Frees a block after the work of all its streams, or keeps it if one of them is being
    /// captured.
    void free_after(part& here, late_free late) {
        if (!captured(late)) { return free_now(here, late); }
        std::list<late_free> kept;
        kept.push_back(std::move(late));
        keep(here, kept);
    }
    void free_now(part& here, late_free const& late) {
        try {
            std::lock_guard const lock{here.mutex};
            join(here, late.on);
            for (stream const other : late.others) { join(here, other); }
            here.stack->deallocate(here.joined.view(), late.p, late.bytes);
            return;
        } catch (...) { detail::report_failed_call("ordering the free of a block of PyTorch"); }
        platform::synchronize(here.where);
        for (stream const other : late.others) {
            platform::synchronize(platform::device_of(other));
        }
        here.stack->deallocate(late.on, late.p, late.bytes);
    }
    static void join(part& here, stream s) {
        // An event belongs to the device of its stream, which may not be the device of the block.
        typename platform::event end{platform::device_of(s)};
        platform::record(end, s);
        platform::wait(here.joined.view(), end);
    }
    [[nodiscard]] static bool captured(late_free const& late) {
        bool found = platform::capturing(late.on);
        for (stream const other : late.others) { found = found || platform::capturing(other); }
        return found;
    }
    static void keep(part& here, std::list<late_free>& kept) {
        std::lock_guard const lock{here.mutex};
        here.late.splice(here.late.end(), kept);
        here.waiting.store(here.late.size(), std::memory_order_relaxed);
    }
    /// Frees the blocks of one device that PyTorch freed during a stream capture, except those with
    /// a stream that is still being captured. If a free fails, reports it and frees the others.
    void free_late(part& here) {
        std::list<late_free> all, kept;
        {
            std::lock_guard const lock{here.mutex};
            all.swap(here.late);
            here.waiting.store(0, std::memory_order_relaxed);
        }
        while (!all.empty()) {
            late_free const& first = all.front();
            try {
                if (captured(first)) {
                    kept.splice(kept.end(), all, all.begin());
                    continue;
                }
                free_now(here, first);
            } catch (...) { detail::report_failed_call("freeing a block of PyTorch"); }
            all.pop_front();
        }
        keep(here, kept);
    }

    std::function<std::unique_ptr<R>(device)>            make_;
    std::array<std::atomic<part*>, most_devices>         parts_{};
    std::mutex                                           mutex_;
    std::unordered_map<void const*, std::vector<stream>> recorded_;
    std::atomic<std::size_t>                             any_recorded_{0};
};

template <class Make>
torch_allocator(Make)
    -> torch_allocator<typename decltype(std::function(std::declval<Make>()))::result_type>;

} // namespace vram
