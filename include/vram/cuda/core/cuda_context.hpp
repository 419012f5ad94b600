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

/// Detects that a device was reset. `cudaDeviceReset` destroys all streams, events and memory of a
/// device. Objects of vram may still have their handles, and CUDA dereferences a handle that is
/// passed to it. CUDA does not announce a reset, so the objects compare the context of the device
/// at their creation and before they destroy anything: after a reset the context has another id
/// (CUDA 12.0), and there is no context until CUDA is used again.
///
/// Only the primary context, that of the runtime, is known. No call here creates a context.
///
/// Failure   If the driver cannot be asked, no reset is noticed. The first call of `ended` after a
///           reset reports it to the error sink.
/// Threads   Any thread may call. No other thread may use a device during its reset.
/// Streams   None. A query of a context is legal during a capture.
/// Cost      `over` is a load. `now`, `ended` and `notice` are two calls of the driver.
class cuda_context {
public:
    /// The time between two resets of a device: `number` is the number of resets before it.
    struct life {
        int      device = 0;
        unsigned number = 0;
    };

    /// Returns the present life of `device` (the time since its last reset, if any). An object
    /// stores it at its creation and later passes it to `over` or `ended`.
    [[nodiscard]] static life now(cuda_device device) noexcept {
        notice(device);
        return {device.ordinal(), state_of(device.ordinal()).number.load()};
    }
    /// Returns true if it is already known that the device was reset after `now` returned `of`.
    /// Makes no call of the driver.
    [[nodiscard]] static bool over(life of) noexcept {
        return state_of(of.device).number.load(std::memory_order_relaxed) != of.number;
    }
    /// Asks the driver, and returns true if the device was reset after `now` returned `of`. The
    /// first call that finds a reset reports it to the error sink.
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
    /// Returns true if a reset of the device was noticed, and nothing has used the device since, so
    /// that it has no context.
    [[nodiscard]] static bool gone(cuda_device device) noexcept {
        notice(device);
        state const& its = state_of(device.ordinal());
        return its.number.load() != 0 && its.id.load() == 0;
    }

    /// Stores the function that `notice` calls, as `call(device)`, for each reset that it finds. It
    /// replaces the function stored before.
    static void call_after_reset(void (*call)(cuda_device) noexcept) noexcept {
        after_reset_.store(call);
    }

    /// Asks the driver if `device` was reset since the last call for this device. If so, counts the
    /// reset and calls the function stored by `call_after_reset`, once for each reset even if
    /// several threads ask at the same time.
    static void notice(cuda_device device) noexcept {
        state& its = state_of(device.ordinal());
        if (&its == &no_state_) { return; }
        unsigned long long now = 0;
        if (!ask(device.ordinal(), now)) { return; }
        if (its.id.load() == now) { return; }
        std::scoped_lock const   held{mutex_};
        unsigned long long const before = its.id.exchange(now);
        // Nothing is to be done if no context was known before, or if another thread has already
        // noticed the reset.
        if (before == 0 || before == now) { return; }
        its.number.fetch_add(1);
        if (auto const call = after_reset_.load()) { call(device); }
    }
    /// Looks for a reset (`notice`) of every device that is known to have a context.
    static void notice_all() noexcept {
        for (int i = 0; i < most_devices; ++i) {
            if (states_[i].id.load(std::memory_order_relaxed) != 0) { notice(cuda_device{i}); }
        }
    }

private:
    static constexpr int most_devices = 64;

    struct state {
        /// Id of the context; 0 if it was not queried or there is none.
        std::atomic<unsigned long long> id;
        std::atomic<unsigned>           number; ///< number of resets so far
        /// Value of `number` at the last report of a reset.
        std::atomic<unsigned> reported;
        /// The primary context; null if it was not queried yet.
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

    /// Sets `id` to the id of the device's primary context, or to 0 if there is none. Returns false
    /// if the driver cannot answer, or if the process is ending or a child of `fork`.
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
        // The context stays after this release: it is active, so the runtime has a reference too.
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
