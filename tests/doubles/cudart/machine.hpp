// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `machine` is the state behind the double's functions: a simulated node, and tables of handles
/// and blocks.

#include "calls.hpp" // call, this_thread

#include <vram/sim/machine/sim_register.hpp> // sim_register
#include <vram/sim/sim_async_resource.hpp>   // sim_async_resource
#include <vram/sim/sim_event.hpp>            // sim_event
#include <vram/sim/sim_managed_resource.hpp> // sim_managed_resource
#include <vram/sim/sim_node.hpp>             // sim_node
#include <vram/sim/sim_pinned_resource.hpp>  // sim_pinned_resource
#include <vram/sim/sim_resource.hpp>         // sim_resource
#include <vram/sim/sim_stream.hpp>           // sim_stream

#include <atomic>             // atomic
#include <condition_variable> // condition_variable
#include <cstddef>            // size_t
#include <deque>              // deque
#include <map>                // map
#include <memory>             // unique_ptr, shared_ptr
#include <mutex>              // mutex, unique_lock
#include <new>                // bad_alloc
#include <optional>           // optional
#include <set>                // set
#include <string_view>        // string_view
#include <thread>             // thread::id
#include <utility>            // exchange
#include <vector>             // vector

namespace doubles::cudart {

/// A graph capture in progress. Captured work does not run.
struct capture {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id       thread; ///< thread that began it
    bool                  intact = true;
    /// Streams that joined by an event and were not waited for by the first stream.
    std::set<CUstream_st*> joined{};
};

} // namespace doubles::cudart

// The types that the runtime's handles point to, which only the runtime defines.

struct CUstream_st {
    std::optional<vram::sim_stream>           own; ///< empty: a default stream
    vram::sim_stream_view                     view{};
    int                                       device   = 0;
    unsigned                                  flags    = 0;
    int                                       priority = 0;
    std::shared_ptr<doubles::cudart::capture> captured{};
    bool                                      origin = false; ///< the capture began on this stream
};

struct CUevent_st {
    vram::sim_event                         place;
    int                                     device   = 0;
    unsigned                                flags    = 0;
    bool                                    recorded = false;
    bool                                    in_graph = false; ///< last recorded in a capture
    std::weak_ptr<doubles::cudart::capture> graph{};          ///< that capture
    CUstream_st*                            on     = nullptr; ///< the captured stream
    std::uint64_t                           stream = 0; ///< id of the stream of the last record
    std::uint64_t                           frees  = 0; ///< number of frees before that record
};

namespace doubles::cudart {

/// A cudaFreeAsync whose completion the host has not observed by a wait.
struct unseen_free {
    std::size_t   bytes;
    std::uint64_t stream; ///< id of the stream
    std::uint64_t number; ///< `machine::frees` after the free
    int           device; ///< device of the stream
};

} // namespace doubles::cudart

struct CUmemPoolHandle_st {
    int                                       device    = 0;
    std::size_t                               maximum   = 0;
    std::uint64_t                             threshold = 0;
    int                                       reuse[3]  = {1, 1, 1};
    std::map<int, cudaMemAccessFlags>         access{};
    std::optional<vram::sim_async_resource>   memory{};
    std::size_t                               blocks    = 0;
    bool                                      destroyed = false;
    std::vector<doubles::cudart::unseen_free> unseen{};
};

struct CUgraph_st {};

namespace doubles::cudart {

/// The primary context of a device.
struct context {
    bool               active = true;
    unsigned long long id     = 0;
};

/// A block that the runtime allocated.
struct block {
    enum class kind { device, pinned, managed, pool };

    kind          what{};
    std::size_t   bytes  = 0;
    int           device = 0;
    unsigned      flags  = 0;       ///< flags of pinned memory
    cudaMemPool_t pool   = nullptr; ///< pool of stream-ordered memory
};

/// A thread of the driver. It waits for host functions, so that simulated time advances even if all
/// threads of the program wait for them. It ends once all of them have run: otherwise it would be
/// alive when the process ends, and its state then counts as leaked.
class driver {
public:
    driver()         = default;
    driver(driver&&) = delete;
    ~driver() { stop(); }

    /// Advances simulated time until `place`.
    void follow(vram::sim_event place) {
        std::scoped_lock const held{mutex_};
        places_.push_back(std::move(place));
        if (std::exchange(running_, true)) { return; }
        std::thread{[this] { run(); }}.detach();
    }
    /// Must be called before the simulated node is destroyed.
    void stop() {
        std::unique_lock held{mutex_};
        condition_.wait(held, [&] { return !running_; });
    }

private:
    void run() {
        std::unique_lock held{mutex_};
        while (!places_.empty()) {
            {
                vram::sim_event const place = std::move(places_.front());
                places_.pop_front();
                held.unlock();
                try {
                    place.synchronize();
                } catch (vram::sim_error const&) {} // the next query of the program receives it
            }
            held.lock();
        }
        running_ = false;
        condition_.notify_all();
    }

    std::mutex                  mutex_;
    std::condition_variable     condition_;
    std::deque<vram::sim_event> places_;
    bool                        running_ = false;
};

/// A completion flag that a stream wrote. A thread that reads it is ordered after the earlier work
/// of the stream.
struct left_mark {
    explicit left_mark(vram::sim_device device) : before{device} {}

    vram::sim_event   before;
    std::atomic<bool> there{false};
};

/// All tables, with one lock. The lock is released while the simulated device waits.
class machine {
public:
    static machine& here() {
        // Never destroyed, because it is used while the process ends.
        static machine& only = *new machine;
        return only;
    }

    machine() { reset({}); }

    void reset(machine_options const& options) {
        host_functions.stop();
        std::scoped_lock const held{mutex};
        streams.clear();
        spare_streams.clear();
        defaults.clear();
        events.clear();
        blocks.clear();
        registered.clear();
        pools.clear();
        graphs.clear();
        captures.clear();
        exportable.clear();
        marks.clear();
        ++epoch;
        dangling = 0;
        dead_streams.clear();
        dead_events.clear();
        contexts.assign(static_cast<std::size_t>(options.devices), {});
        for (auto& each : contexts) { each.id = ++last_context; }
        chosen = options;
        node.reset();
        vram::sim_options of_node{};
        of_node.devices  = options.devices;
        of_node.capacity = options.capacity;
        // Leaks are counted by the census, and some are deliberate.
        of_node.checks.leaks = false;
        node                 = std::make_unique<vram::sim_node>(of_node);
    }

    /// Orders this thread after all written flags, because the checker cannot see it read them.
    void hear_of_marks() {
        thread_state& mine = this_thread();
        if (std::exchange(mine.epoch, epoch) != epoch) { mine.heard = 0; }
        for (std::size_t i = mine.heard; i < marks.size(); ++i) {
            if (!marks[i]->there) { continue; }
            marks[i]->before.synchronize();
            mine.heard += i == mine.heard;
        }
    }

    [[nodiscard]] bool is_device(int device) const noexcept {
        return device >= 0 && device < chosen.devices;
    }
    [[nodiscard]] vram::sim_device device(int ordinal) const { return {node->machine(), ordinal}; }

    void activate(int device) {
        context& its = contexts[static_cast<std::size_t>(device)];
        if (its.active) { return; }
        its = {true, ++last_context};
    }
    /// The host has waited: forgets the unseen frees for which `covers` returns true. A query that
    /// finds all work complete does not count.
    template <class Covers>
    void see_frees(Covers covers) {
        for (auto const& [handle, pool] : pools) { std::erase_if(pool->unseen, covers); }
    }
    /// Counts a call with the handle of an event that a reset destroyed.
    void note_event(cudaEvent_t handle) { dangling += dead_events.contains(handle) ? 1 : 0; }
    /// Returns true if a destroyed stream had the handle.
    [[nodiscard]] bool is_gone(cudaStream_t handle) const {
        if (dead_streams.contains(handle)) { return true; }
        for (auto const& each : spare_streams) {
            if (each.get() == handle) { return true; }
        }
        return false;
    }
    /// Returns the stream that a handle means on this thread, or null.
    CUstream_st* find(cudaStream_t handle) {
        int const device_now = this_thread().device;
        if (handle == nullptr || handle == cudaStreamLegacy) {
            return default_stream(device_now, std::thread::id{});
        }
        if (handle == cudaStreamPerThread) {
            return default_stream(device_now, std::this_thread::get_id());
        }
        return streams.contains(handle) ? handle : nullptr;
    }

    std::mutex                                           mutex;
    machine_options                                      chosen;
    std::unique_ptr<vram::sim_node>                      node;
    driver                                               host_functions;
    std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
    std::vector<std::unique_ptr<CUstream_st>> spare_streams; ///< handles are reused at once
    std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
    std::map<void*, block>                             blocks;
    /// Registered ranges with their sizes.
    std::map<void*, std::pair<std::size_t, vram::detail::sim_register>> registered;
    std::map<cudaMemPool_t, std::unique_ptr<CUmemPoolHandle_st>>        pools;
    std::set<std::unique_ptr<CUgraph_st>>                               graphs;
    std::vector<std::weak_ptr<capture>>                                 captures;
    std::vector<std::shared_ptr<left_mark>>                             marks;
    /// Number of this machine.
    std::uint64_t epoch    = 0;
    std::uint64_t frees    = 0; ///< number of stream-ordered frees
    std::size_t   dangling = 0; ///< calls with the handle of a destroyed stream
    std::map<cudaStream_t, std::unique_ptr<CUstream_st>>
        /// Streams of a device that was reset.
                                                       dead_streams;
    std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> dead_events;
    std::vector<context>                               contexts; ///< one for each device
    unsigned long long                                 last_context = 0;
    std::set<std::uint64_t> exportable; ///< physical memory that other processes may map

private:
    CUstream_st* default_stream(int ordinal, std::thread::id thread) {
        auto& made = defaults[{ordinal, thread}];
        if (made == nullptr) {
            made         = std::make_unique<CUstream_st>();
            made->device = ordinal;
            made->view   = thread == std::thread::id{}
                               ? vram::sim_stream_view::legacy(device(ordinal))
                               : vram::sim_stream_view::per_thread(device(ordinal));
        }
        return made.get();
    }

    std::map<std::pair<int, std::thread::id>, std::unique_ptr<CUstream_st>> defaults;
};

/// Adds the live objects of virtual memory.
void count_virtual(machine& m, census& now);

/// Returns CUDA's error code for an error of the simulated device.
[[nodiscard]] inline cudaError_t translated(vram::sim_error const& e) noexcept {
    switch (e.status()) {
    case vram::sim_status::invalid_value: return cudaErrorInvalidValue;
    case vram::sim_status::invalid_device: return cudaErrorInvalidDevice;
    case vram::sim_status::invalid_handle: return cudaErrorInvalidResourceHandle;
    case vram::sim_status::out_of_memory: return cudaErrorMemoryAllocation;
    case vram::sim_status::not_permitted: return cudaErrorNotPermitted;
    default: return cudaErrorUnknown;
    }
}

/// Returns true if a function creates the context of a device again after a reset.
inline bool makes_context(std::string_view function) noexcept {
    return function.starts_with("cudaMalloc") || function.starts_with("cudaFree") ||
           function.starts_with("cudaStream") || function.starts_with("cudaEvent") ||
           function.starts_with("cudaHost") || function == "cudaDeviceSynchronize" ||
           function == "cudaMemGetInfo" || function == "cudaMemPoolCreate";
}

/// A call that uses the machine: runs `body(machine, lock)` with the lock held, which it may
/// release.
template <class Body>
cudaError_t machine_call(char const* function, Body body) noexcept {
    return call(function, [&] {
        try {
            machine&         m = machine::here();
            std::unique_lock held{m.mutex};
            if (makes_context(function)) { m.activate(this_thread().device); }
            return body(m, held);
        } catch (vram::sim_error const& e) { return translated(e); } catch (std::bad_alloc const&) {
            return cudaErrorMemoryAllocation;
        }
    });
}

/// A call on a stream: runs `body(machine, lock, stream)` with the lock held. An invalid handle is
/// refused.
template <class Body>
cudaError_t stream_call(char const* function, cudaStream_t handle, Body body) noexcept {
    return machine_call(function, [&](machine& m, std::unique_lock<std::mutex>& held) {
        m.hear_of_marks();
        CUstream_st* const s = m.find(handle);
        if (s == nullptr) { m.dangling += m.is_gone(handle) ? 1 : 0; }
        return s == nullptr ? cudaErrorInvalidResourceHandle : body(m, held, *s);
    });
}

/// The double of cuStreamWriteValue32.
void* stream_write_value();
/// Returns the driver's query function for streams with this name, or null.
void* stream_question(std::string_view name);

/// Breaks a capture, and returns the error of the call that broke it.
inline cudaError_t spoil(capture& c) noexcept {
    c.intact = false;
    return cudaErrorStreamCaptureUnsupported;
}

/// Checks a call that is illegal during captures (cudaMalloc, cudaEventQuery, any synchronisation).
/// If this thread's mode and a capture's mode forbid it, breaks the capture and returns an error.
inline cudaError_t unsafe(machine& m) {
    auto const  mode   = this_thread().mode;
    cudaError_t status = cudaSuccess;
    std::erase_if(m.captures, [](auto const& each) { return each.expired(); });
    for (auto const& each : m.captures) {
        auto const c = each.lock();
        bool const mine =
            c->thread == std::this_thread::get_id() && c->mode != cudaStreamCaptureModeRelaxed;
        bool const all =
            c->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
        if (mode != cudaStreamCaptureModeRelaxed && (mine || all)) { status = spoil(*c); }
    }
    return status;
}

} // namespace doubles::cudart
