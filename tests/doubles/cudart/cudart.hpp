// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cudart` is a double of the CUDA runtime: its C functions, implemented on the simulated device.
///
/// It replaces libcudart when a test executable is linked, so that all of `cuda/`, including its
/// error paths, runs without a GPU. It counts calls, makes the n-th fail on request, latches errors
/// as the runtime does, and counts live objects. Its results are those of an H200 with driver and
/// runtime 13.0; oddities are named in the code that copies them. Tests that need these controls
/// are guarded by `#ifdef VRAM_CUDART_DOUBLE`.

#include <cuda_runtime_api.h> // cudaError_t

#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <functional> // function

namespace doubles::cudart {

/// The options of the next machine.
struct machine_options {
    int         devices        = 2;
    std::size_t capacity       = std::size_t{1} << 30; ///< bytes of memory of each device
    bool        pools          = true;                 ///< true if the devices have memory pools
    bool        virtual_memory = true;                 ///< true if the driver has virtual memory
    /// True if streams can write completion flags.
    bool marks = true;
    /// True if devices use the host's page tables.
    bool page_tables = false;
    /// True for a driver older than 10.2, which finds the names of functions and refuses their
    /// calls.
    bool old_driver = false;
};

/// The live objects of the program.
struct census {
    std::size_t device_blocks  = 0; ///< blocks of cudaMalloc
    std::size_t pinned_blocks  = 0;
    std::size_t managed_blocks = 0;
    std::size_t registered     = 0; ///< ranges of cudaHostRegister
    std::size_t pool_blocks    = 0; ///< blocks of cudaMallocAsync
    std::size_t pools          = 0;
    std::size_t streams        = 0;
    std::size_t events         = 0;
    std::size_t graphs         = 0;
    std::size_t ranges         = 0; ///< reserved address ranges
    std::size_t pages          = 0; ///< physical memory with a handle
    std::size_t mappings       = 0;

    friend bool operator==(census const&, census const&) = default;
};

/// Starts a new machine: no live objects, no counted calls, no planned failures, no latched error
/// on this thread, and device 0 current. Other threads must not use the old machine.
void reset(machine_options const& options = {});

/// Returns the present number of live objects.
[[nodiscard]] census out();

/// Returns the number of mistakes that the simulated device's checker has reported: races, use
/// after free, ...
[[nodiscard]] std::size_t mistakes();

/// Returns the number of calls with the handle of a destroyed stream. The double refuses them; CUDA
/// itself dereferences the handle and may crash.
[[nodiscard]] std::size_t dangling();

/// Returns true if the device has a context: it was not reset, or was used after the reset.
[[nodiscard]] bool has_context(int device);

/// Returns the number of calls of one function (its name as in CUDA's documentation), or of all
/// functions.
[[nodiscard]] std::uint64_t calls(char const* function);
[[nodiscard]] std::uint64_t calls();

/// Returns the device that was current at the last call of `function`, or -1.
[[nodiscard]] int device_of_last(char const* function);

/// Plans a failure of the `nth` call from here on, of one function or of any. The call returns
/// `status`, latches it, and has no other effect. A function that frees or destroys does its work
/// all the same, since it may return the error of earlier work. Functions that read errors and
/// their names never fail. With `times`, the following calls fail as well.
void fail(char const* function, cudaError_t status, std::uint64_t nth = 1, std::uint64_t times = 1);
void fail_nth(std::uint64_t nth, cudaError_t status);
/// Cancels the plan. Returns true if it has taken effect.
bool forgive();

/// Calls `what()` once, before this thread's `nth` call from now on, in place of another thread.
/// Calls made by `what` are not counted.
void before_call(std::uint64_t nth, std::function<void()> what);
/// Cancels the plan of `before_call`. Returns true if the function was called.
bool cancel_before_call();

/// From now on every call fails with `status`, and clearing the error does not help, as after a
/// kernel broke the context.
void break_context(cudaError_t status);

/// From now on `fork` waits until no other thread is inside the double, so that the child process
/// can read the counters.
void keep_across_fork();

/// From now on every call returns cudaErrorCudartUnloading, as at the end of the process.
void unload();

} // namespace doubles::cudart
