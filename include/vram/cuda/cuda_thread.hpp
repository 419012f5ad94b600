// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_thread` is a host thread that is set up to work with a device.

#include <vram/base/gate.hpp>        // gate
#include <vram/base/worker.hpp>      // worker
#include <vram/cuda/cuda_device.hpp> // cuda_device

#include <cuda_runtime_api.h> // cudaSetDevice, cudaThreadExchangeStreamCaptureMode

#include <utility> // forward

namespace vram {

/// A worker whose device is current, and whose calls leave the graph captures of other threads
/// alone: without that, the capture that a user makes meanwhile is ended by the first
/// cudaEventQuery of a thread that he never heard of.
///
/// Failure   `cuda_error` from the constructor when the device cannot be set; then the body has not
///           begun
/// Threads   joins when destroyed or assigned to
/// Cost      the constructor waits until the thread is set up
class cuda_thread {
public:
    cuda_thread() = default;

    /// Runs `body()` on a new thread, with `device` current.
    template <class Body>
    cuda_thread(cuda_device device, Body&& body) {
        gate        door; // the thread says how its set-up went, and is on its own from there on
        bool        told    = false;
        cudaError_t outcome = cudaSuccess;
        thread_ = worker{device, [&, device, work = std::forward<Body>(body)]() mutable {
                             cudaError_t const status = set_up(device);
                             {
                                 auto const held = door.hold();
                                 outcome         = status;
                                 told            = true;
                                 door.notify(); // while held: afterwards the door may be gone
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

    /// Waits until the thread has ended. A second call does nothing.
    void join() noexcept { thread_.join(); }

private:
    static cudaError_t set_up(cuda_device device) noexcept {
        return cuda_exit::or_refused([&] {
            cudaError_t const status = cudaSetDevice(device.ordinal());
            if (status != cudaSuccess) { return status; }
            cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
            return cudaThreadExchangeStreamCaptureMode(&mode);
        });
    }

    worker thread_;
};

} // namespace vram
