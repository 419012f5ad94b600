// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_context` detects that a device was reset since an object was created on it.

#include <vram/base/error.hpp> // report_error
#include <vram/cuda/core/cuda_capture_guard.hpp>
#include <vram/cuda/core/cuda_entry_point.hpp>
#include <vram/cuda/core/cuda_exit.hpp>
#include <vram/cuda/cuda_device.hpp>

#include <cuda.h> // cuDevicePrimaryCtxGetState and the others: their types alone

#include <atomic> // atomic
#include <mutex>  // mutex, scoped_lock

namespace vram {
namespace detail {

/// Detects that a device was reset. `cudaDeviceReset` destroys all streams, events and memory of
/// the device, so their handles must not be passed to CUDA afterwards. No function of this class
/// creates a context.
///
/// Failure   If the driver cannot be asked, no reset is noticed.
/// Threads   Any thread may call, but none may use a device during a reset.
class cuda_context {
public:
    /// A device, and the number of its resets that were known at some time. An object stores this
    /// pair when it is created (see `now`). It later passes the pair to `over` or `ended`, to learn
    /// if the device was reset since then.
    struct life {
        int      device = 0;
        unsigned number = 0;
    };

    /// Asks the driver for new resets. Returns the device and the number of its resets, to be
    /// passed to `over` or `ended` later.
    [[nodiscard]] static life now(cuda_device device) noexcept {
        notice(device);
        return {device.ordinal(), state_of(device.ordinal()).number.load()};
    }
    /// Returns true if vram knows of a reset of the device since `now` returned `of`. Does not ask
    /// the driver.
    [[nodiscard]] static bool over(life of) noexcept {
        return state_of(of.device).number.load(std::memory_order_relaxed) != of.number;
    }
    /// Asks the driver, and returns true if the device was reset since `now` returned `of`. Reports
    /// a reset once to the error sink.
    [[nodiscard]] static bool ended(life of) noexcept {
        notice(cuda_device{of.device});
        if (!over(of)) [[likely]] { return false; }
        state& its = state_of(of.device);
        if (its.reported.exchange(its.number.load()) == its.number.load()) { return true; }
        report_error({.kind   = error_kind::platform_error,
                      .call   = "returning streams, events or memory to CUDA",
                      .cause  = "the device was reset while they existed, which destroyed them",
                      .advice = "Destroy vram's objects before the call of cudaDeviceReset."});
        return true;
    }
    /// Asks the driver, and returns true if the device was reset and has no context now.
    [[nodiscard]] static bool gone(cuda_device device) noexcept {
        notice(device);
        state const& its = state_of(device.ordinal());
        return its.number.load() != 0 && its.id.load() == 0;
    }

    /// Stores a function, which `notice` calls as `call(device)` after each new reset. Replaces the
    /// function stored before.
    static void call_after_reset(void (*call)(cuda_device) noexcept) noexcept {
        after_reset_.store(call);
    }

    /// Asks the driver if `device` was reset. Counts a new reset once, and then calls the function
    /// stored by `call_after_reset`.
    static void notice(cuda_device device) noexcept {
        state& its = state_of(device.ordinal());
        if (&its == &no_state_) { return; }
        unsigned long long now = 0;
        if (!ask(device.ordinal(), now)) { return; }
        if (its.id.load() == now) { return; }
        std::scoped_lock const   held{mutex_};
        unsigned long long const before = its.id.exchange(now);
        // If `before` is 0, no context was known before, so this is no reset. If `before` is `now`,
        // another thread has already counted the reset.
        if (before == 0 || before == now) { return; }
        its.number.fetch_add(1);
        if (auto const call = after_reset_.load()) { call(device); }
    }
    /// Asks the driver for new resets (`notice`) of each device with a known context.
    static void notice_all() noexcept {
        for (int i = 0; i < most_devices; ++i) {
            if (states_[i].id.load(std::memory_order_relaxed) != 0) { notice(cuda_device{i}); }
        }
    }

private:
    static constexpr int most_devices = 64;

    struct state {
        /// Id of the primary context at the last query; 0 if it was not queried or there was none.
        std::atomic<unsigned long long> id;
        /// Number of resets of this device that `notice` has counted so far.
        std::atomic<unsigned> number;
        /// Value of `number` (resets so far) at the last report to the error sink, so that a reset
        /// is reported at most once.
        std::atomic<unsigned> reported;
        /// The primary context; null if it was not queried yet, or was not active at the last
        /// query.
        std::atomic<CUcontext> context;
    };
    struct calls {
        decltype(&::cuDevicePrimaryCtxGetState) get     = nullptr;
        decltype(&::cuDevicePrimaryCtxRetain)   retain  = nullptr;
        decltype(&::cuDevicePrimaryCtxRelease)  release = nullptr;
        decltype(&::cuCtxGetId)                 id      = nullptr;
        bool                                    all     = false;
    };

    [[nodiscard]] static calls look_up() noexcept {
        calls found;
        try {
            found.get =
                cuda_entry_point<decltype(found.get)>("cuDevicePrimaryCtxGetState", 7000).call;
            found.retain =
                cuda_entry_point<decltype(found.retain)>("cuDevicePrimaryCtxRetain", 7000).call;
            found.release =
                cuda_entry_point<decltype(found.release)>("cuDevicePrimaryCtxRelease", 11000).call;
            found.id  = cuda_entry_point<decltype(found.id)>("cuCtxGetId", 12000).call;
            found.all = found.get != nullptr && found.retain != nullptr &&
                        found.release != nullptr && found.id != nullptr;
        } catch (...) {} // `all` stays false: no reset is noticed
        return found;
    }

    /// Sets `id` to the id of the device's primary context, or to 0 without one. Returns false if
    /// the driver cannot be asked.
    [[nodiscard]] static bool ask(int device, unsigned long long& id) noexcept {
        if (cuda_exit::began()) { return false; }
        static calls const driver = look_up();
        if (!driver.all) { return false; }
        unsigned flags  = 0;
        int      active = 0;
        if (driver.get(device, &flags, &active) != CUDA_SUCCESS) { return false; }
        id = 0;
        if (active == 0) {
            state_of(device).context.store(nullptr);
            return true;
        }
        CUcontext context = state_of(device).context.load();
        if (context != nullptr && driver.id(context, &id) == CUDA_SUCCESS) { return true; }
        cuda_capture_guard const relaxed;
        if (driver.retain(&context, device) != CUDA_SUCCESS) { return false; }
        // `retain` was called only to get the handle of the context. The CUDA runtime keeps the
        // context active.
        (void)driver.release(device);
        state_of(device).context.store(context);
        return driver.id(context, &id) == CUDA_SUCCESS;
    }

    [[nodiscard]] static state& state_of(int device) noexcept {
        return device >= 0 && device < most_devices ? states_[device] : no_state_;
    }

    static inline std::mutex                                            mutex_;
    static inline constinit std::atomic<void (*)(cuda_device) noexcept> after_reset_{nullptr};
    static inline constinit state                                       states_[most_devices]{};
    static inline constinit state                                       no_state_{};
};

} // namespace detail
} // namespace vram
