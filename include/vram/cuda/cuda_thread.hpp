// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_thread` is a host thread with a current device.

#include <vram/base/core/meeting.hpp>
#include <vram/cuda/cuda_device.hpp>
#include <vram/source/core/posix_thread.hpp>

#include <cuda_runtime_api.h> // cudaSetDevice, cudaThreadExchangeStreamCaptureMode

#include <utility>

#if !__has_include(<pthread.h>)
#include <vram/base/core/worker.hpp>
#endif

namespace vram {

/// A host thread with a current device, in relaxed capture mode, so that calls such as
/// cudaEventQuery do not end a graph capture of another thread.
///
/// Failure   The constructor throws `cuda_error`, or `std::system_error` if no thread can be
///           started.
/// Threads   The destructor and an assignment join the thread.
/// Cost      The constructor waits until the thread has set its device.
class cuda_thread {
public:
    cuda_thread() = default;

    /// Starts a thread that makes `device` current, sets the relaxed capture mode, and calls
    /// `body()`. Throws if the thread cannot be started, or cannot set the device or the mode.
    template <class Body>
    cuda_thread(cuda_device device, Body&& body) {
        // The constructor waits until the new thread reports if it could set the device and the
        // capture mode.
        detail::meeting door;
        bool            told    = false;
        cudaError_t     outcome = cudaSuccess;
        thread_ = host_thread{[&, device, work = std::forward<Body>(body)]() mutable {
            cudaError_t const status = set_up(device);
            {
                auto const held = door.hold();
                outcome         = status;
                told            = true;
                // Wakes the constructor while this thread still holds the lock of `door`. Once the
                // lock is released, the constructor may return and destroy `door`.
                door.notify();
            }
            if (status == cudaSuccess) { work(); }
        }};
        {
            auto held = door.hold();
            door.wait(held, [&] { return told; });
        }
        if (outcome != cudaSuccess) { thread_.join(); }
        cuda_check(outcome);
    }

    /// Blocks the caller until the thread of this object has ended. A second call does nothing.
    void join() noexcept { thread_.join(); }

private:
#if __has_include(<pthread.h>)
    using host_thread = detail::posix_thread;
#else
    struct host_thread : detail::worker {
        host_thread() = default;
        template <class Body>
        explicit host_thread(Body&& body) : worker{0, std::forward<Body>(body)} {}
    };
#endif

    static cudaError_t set_up(cuda_device device) noexcept {
        return detail::cuda_exit::or_refused([&] {
            cudaError_t const status = cudaSetDevice(device.ordinal());
            if (status != cudaSuccess) { return status; }
            cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
            return cudaThreadExchangeStreamCaptureMode(&mode);
        });
    }

    host_thread thread_;
};

} // namespace vram
