// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `torch_allocator` has the functions that PyTorch's `CUDAPluggableAllocator` calls, over a stack
/// for each device.

#include <vram/base/contract.hpp>           // expects
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/error.hpp>              // postponed_errors
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/concepts/powers.hpp> // trimmable_resource, forgetting_resource
#include <vram/concepts/resource.hpp>

#include <algorithm> // find
#include <array>     // array
#include <atomic>    // atomic
#include <concepts>  // same_as
#include <cstddef>
#include <cstdint>
#include <functional>    // function
#include <list>          // list, erase_if
#include <memory>        // unique_ptr
#include <mutex>         // mutex, lock_guard
#include <type_traits>   // invoke_result_t
#include <unordered_map> // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {

/// A stack (a resource with its upstreams) for each device, with the functions of an allocator of
/// PyTorch. The first request for a device makes the stack of the device.
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
/// PyTorch frees tensors until the process has ended, so the object must never be destroyed: hold
/// it by a reference to an object made with `new`.
///
/// Failure   `allocate` throws the exceptions of the stack. `deallocate` reports errors to the
///           error sink.
/// Threads   Any thread may call, if any thread may call the stack.
/// Streams   A free takes effect after the work of all streams that `record_stream` announced for
///           the block, and delays none of them. A block that a captured graph may use, or whose
///           free fails, is not freed before `forget_captures`.
/// Cost      Two changes of the current device. The free of a block with announced streams also
///           costs an event for each stream.
template <resource R>
class torch_allocator {
public:
    using resource_type = R;
    using platform      = typename R::platform;
    using device        = typename platform::device;
    using stream        = typename platform::stream;

    /// Number of supported devices. The index of each device must be smaller than this number.
    static constexpr std::size_t most_devices = 64;

    /// Makes an allocator without stacks. At the first use of a device `d`, the allocator calls
    /// `make(d)`, which returns the stack of the device.
    template <class Make>
        requires std::same_as<std::invoke_result_t<Make&, device>, R>
    explicit torch_allocator(Make make)
        : make_{[make](device d) { return std::unique_ptr<R>{new R(make(d))}; }} {}
    torch_allocator(torch_allocator&&) = delete;
    /// Waits for all devices that may use memory of the stacks. Then frees the blocks that are kept
    /// for captured graphs, and destroys the stacks.
    ~torch_allocator() {
        try {
            for (device const d : devices()) { synchronize(d); }
        } catch (...) { detail::report_failed_call("waiting for the devices"); }
        for (auto& each : parts_) {
            part* const it = each.load();
            if (it == nullptr) { continue; }
            for (late_free const& late : it->kept) {
                it->stack->deallocate(late.on, late.p, late.bytes);
            }
            delete it;
        }
    }

    /// Allocates on the stream `s` from the stack of the device `d`, made at the first request.
    [[nodiscard]] void* allocate(device d, stream s, std::size_t bytes) {
        typename platform::device_guard const on{d};
        return of(d).stack->allocate(s, bytes);
    }
    /// Frees a block of the device `d`, which was allocated on the stream `s`.
    void deallocate(device d, stream s, void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { return; }
        try {
            typename platform::device_guard const on{d};
            part&                                 here = of(d);
            late_free                             late{p, bytes, s, recorded_on(p), {}};
            if (late.others.empty()) { return here.stack->deallocate(s, p, bytes); }
            if (free_now(here, late)) { return; }
            note_devices(late, here.where);
            std::list<late_free> kept;
            kept.push_back(std::move(late));
            keep(here, kept);
        } catch (...) { detail::report_failed_call("freeing a block of PyTorch"); }
    }
    /// Announces that the stream `s` uses the block at `p`. A later free of the block takes effect
    /// after the work of `s`. A default stream is that of the current device.
    void record_stream(void const* p, stream s) {
        if (p == nullptr) { return; }
        user const            by{s, platform::current_device()};
        std::lock_guard const lock{mutex_};
        auto&                 users = recorded_[p];
        if (std::find(users.begin(), users.end(), by) == users.end()) { users.push_back(by); }
        any_recorded_.store(recorded_.size(), std::memory_order_relaxed);
    }

    /// Returns the stack of the device `d`, and makes it if necessary.
    [[nodiscard]] R& stack(device d) {
        typename platform::device_guard const on{d};
        return *of(d).stack;
    }
    /// Trims the stacks of all devices: each returns its unused memory to its upstream. Returns the
    /// sum of the returned bytes.
    std::size_t trim()
        requires trimmable_resource<R>
    {
        std::size_t total = 0;
        for_each_part([&](part& here) { total += here.stack->trim(); });
        return total;
    }
    /// Frees the memory that this object and the stacks keep for captured graphs. The program must
    /// not launch these graphs again. First waits for all devices that may use the memory. Blocks
    /// that a running capture uses stay kept.
    void forget_captures() {
        for (device const d : devices()) { detail::await_device<platform>(d); }
        for_each_part([](part& here) {
            free_kept(here);
            if constexpr (forgetting_resource<R>) { here.stack->forget_captures(); }
        });
    }

private:
    /// A stream that `record_stream` announced for a block, and the device that was current then.
    struct user {
        stream on{};
        device where{};

        friend bool operator==(user const&, user const&) = default;
    };
    /// A block that the program has freed, but that streams may still use: `on`, the stream of the
    /// allocation, and `others`, the streams that `record_stream` announced.
    struct late_free {
        void*             p     = nullptr;
        std::size_t       bytes = 0;
        stream            on{};
        std::vector<user> others;
        /// The devices of `on` and of `others`, for which `forget_captures` and the destructor
        /// wait. Empty unless the block is kept for captured graphs.
        std::vector<device> devices;
    };
    /// All that belongs to one device: the stack (a resource with its upstreams), a stream for
    /// frees, and the blocks kept for captured graphs.
    struct part {
        explicit part(device d, std::unique_ptr<R> made)
            : where{d}, stack{std::move(made)}, joined{d} {}

        device             where;
        std::unique_ptr<R> stack;
        /// Stream that frees the blocks for which `record_stream` announced streams. Before each
        /// such free, it waits for all streams that use the block.
        typename platform::own_stream joined;
        std::mutex                    mutex;
        std::list<late_free>          kept; ///< freed blocks that captured graphs may use
    };

    template <class Function>
    void for_each_part(Function f) {
        for (auto& each : parts_) {
            part* const it = each.load(std::memory_order_acquire);
            if (it == nullptr) { continue; }
            typename platform::device_guard const on{it->where};
            f(*it);
        }
    }
    static void add(std::vector<device>& to, device d) {
        if (std::find(to.begin(), to.end(), d) == to.end()) { to.push_back(d); }
    }
    static void note_devices(late_free& late, device of_stack) {
        add(late.devices, device_of({late.on, of_stack}));
        for (user const& other : late.others) { add(late.devices, device_of(other)); }
    }
    /// Returns the device of the stream `u.on`. If the platform refuses the query, as it may during
    /// a capture, returns `u.where`, the device that was stored with the stream.
    [[nodiscard]] static device device_of(user const& u) noexcept {
        try {
            typename platform::device_guard const on{u.where};
            return platform::device_of(u.on);
        } catch (...) { return u.where; }
    }
    /// Returns the devices that may use memory of the stacks: the devices of the stacks, and the
    /// devices of all streams that use blocks in `kept`.
    [[nodiscard]] std::vector<device> devices() {
        std::vector<device> all;
        for_each_part([&](part& here) {
            add(all, here.where);
            std::lock_guard const lock{here.mutex};
            for (late_free const& late : here.kept) {
                for (device const d : late.devices) { add(all, d); }
            }
        });
        return all;
    }
    static void synchronize(device d) noexcept {
        try {
            platform::synchronize(d);
        } catch (...) { detail::report_failed_call("waiting for a device"); }
    }
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

    /// Removes and returns the streams that `record_stream` announced for the block at `p`.
    [[nodiscard]] std::vector<user> recorded_on(void* p) {
        if (any_recorded_.load(std::memory_order_relaxed) == 0) [[likely]] { return {}; }
        std::lock_guard const lock{mutex_};
        auto const            found = recorded_.find(p);
        if (found == recorded_.end()) { return {}; }
        std::vector<user> users = std::move(found->second);
        recorded_.erase(found);
        any_recorded_.store(recorded_.size(), std::memory_order_relaxed);
        return users;
    }

    /// Frees the block of `late` after the work of all streams that use the block. Returns false,
    /// and frees nothing, if a captured graph may use the block, or if a call of the platform
    /// fails, which is reported.
    [[nodiscard]] static bool free_now(part& here, late_free const& late) noexcept {
        try {
            if (captured(late)) { return free_in_capture(here, late); }
            // Delays error reports until `lock` is released, because the error sink may call this
            // object.
            detail::postponed_errors const reports;
            std::lock_guard const          lock{here.mutex};
            stream const                   joined = here.joined.view();
            bool                           joins  = join(joined, {late.on, here.where}, false);
            for (user const& by : late.others) { joins = joins && join(joined, by, false); }
            if (joins) { here.stack->deallocate(joined, late.p, late.bytes); }
            return joins;
        } catch (...) { detail::report_failed_call("ordering the free of a block of PyTorch"); }
        try {
            if (captured(late)) { return false; }
            detail::await_device<platform>(here.where);
            for (user const& other : late.others) {
                typename platform::device_guard const on{other.where};
                detail::await_device<platform>(platform::device_of(other.on));
            }
            here.stack->deallocate(late.on, late.p, late.bytes);
            return true;
        } catch (...) { detail::report_failed_call("freeing a block of PyTorch"); }
        return false;
    }
    [[nodiscard]] static bool free_in_capture(part& here, late_free const& late) {
        if constexpr (requires(stream s) { platform::capture_of(s); }) {
            std::uint64_t const all = platform::capture_of(late.on);
            for (user const& other : late.others) {
                typename platform::device_guard const on{other.where};
                if (all == 0 || platform::capture_of(other.on) != all) { return false; }
            }
            for (user const& other : late.others) { (void)join(late.on, other, true); }
            here.stack->deallocate(late.on, late.p, late.bytes);
            return true;
        } else {
            return false;
        }
    }
    /// Makes the stream `after` wait for the work of the stream `before.on`. `in_capture` must be
    /// true if both streams are in one capture. If only `before.on` is being captured, returns
    /// false: a wait would add `after` to the capture.
    [[nodiscard]] static bool join(stream after, user const& before, bool in_capture) {
        typename platform::device_guard const on{before.where};
        // Makes an event of the device of `before.on`: a stream records only events of its device.
        typename platform::event end{platform::device_of(before.on)};
        platform::record(end, before.on);
        if (!in_capture && platform::capturing(before.on)) { return false; }
        platform::wait(after, end);
        return true;
    }
    [[nodiscard]] static bool captured(late_free const& late) {
        bool found = platform::capturing(late.on);
        for (user const& other : late.others) {
            typename platform::device_guard const on{other.where};
            found = found || platform::capturing(other.on);
        }
        return found;
    }
    static void keep(part& here, std::list<late_free>& kept) {
        std::lock_guard const lock{here.mutex};
        here.kept.splice(here.kept.end(), kept);
    }
    /// Frees each kept block (a block that captured graphs may use) if none of the block's streams
    /// is being captured now. The other blocks, and those whose free fails, stay kept. Reports
    /// failed frees to the error sink.
    static void free_kept(part& here) {
        std::list<late_free> all;
        {
            std::lock_guard const lock{here.mutex};
            all.swap(here.kept);
        }
        std::erase_if(all, [&](late_free const& each) {
            try {
                return !captured(each) && free_now(here, each);
            } catch (...) { detail::report_failed_call("freeing a block of PyTorch"); }
            return false;
        });
        keep(here, all);
    }

    std::function<std::unique_ptr<R>(device)>          make_;
    std::array<std::atomic<part*>, most_devices>       parts_{};
    std::mutex                                         mutex_;
    std::unordered_map<void const*, std::vector<user>> recorded_;
    std::atomic<std::size_t>                           any_recorded_{0};
};

template <class Make>
torch_allocator(Make)
    -> torch_allocator<typename decltype(std::function(std::declval<Make>()))::result_type>;

} // namespace vram
