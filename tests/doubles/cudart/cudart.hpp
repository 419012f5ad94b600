// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cudart` is a double of the CUDA runtime: the same C functions, on the simulated machine.
///
/// It takes libcudart's place when a test executable is linked, so that all of `cuda/` runs where
/// there is no GPU, its error paths among it. It counts calls, fails the n-th on request, latches
/// errors as the runtime does, and knows what is still out. What a call answers was seen on an H200
/// with driver and runtime 13.0 (the oddities are named where they are copied). Tests that need
/// these controls are guarded by `#ifdef VRAM_CUDART_DOUBLE`.

#include <cuda_runtime_api.h> // cudaError_t

#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <functional> // function

namespace doubles::cudart {

/// The machine to come.
struct machine_options {
    int         devices        = 2;
    std::size_t capacity       = std::size_t{1} << 30; ///< of each device, in bytes
    bool        pools          = true;                 ///< whether the devices have memory pools
    bool        virtual_memory = true;                 ///< whether the driver has it
    bool        marks          = true;                 ///< whether streams write into memory
    bool        page_tables    = false;                ///< whether devices use those of the host
    bool        old_driver = false; ///< of before 10.2: it knows the names, and has no such calls
};

/// What belongs to the program and has not been given back.
struct census {
    std::size_t device_blocks  = 0; ///< cudaMalloc
    std::size_t pinned_blocks  = 0;
    std::size_t managed_blocks = 0;
    std::size_t registered     = 0; ///< ranges of the host's memory: cudaHostRegister
    std::size_t pool_blocks    = 0; ///< cudaMallocAsync
    std::size_t pools          = 0;
    std::size_t streams        = 0;
    std::size_t events         = 0;
    std::size_t graphs         = 0;
    std::size_t ranges         = 0; ///< of addresses that are reserved
    std::size_t pages          = 0; ///< physical memory with a handle
    std::size_t mappings       = 0;

    friend bool operator==(census const&, census const&) = default;
};

/// Starts over with a fresh machine: nothing out, no calls counted, no failure planned, nothing
/// latched on this thread, device 0 current. Not while other threads use the old one.
void reset(machine_options const& options = {});

/// What is out now.
[[nodiscard]] census out();

/// What the simulated machine's checker saw so far: races, use after free, and the like.
[[nodiscard]] std::size_t mistakes();

/// Calls so far with the handle of a stream that was destroyed: they are refused, where CUDA itself
/// follows the handle and may crash.
[[nodiscard]] std::size_t dangling();

/// Returns true if the device has a context: it was not reset, or was used after the reset.
[[nodiscard]] bool has_context(int device);

/// Calls made so far: of one function (its name as in CUDA's documentation), or of all.
[[nodiscard]] std::uint64_t calls(char const* function);
[[nodiscard]] std::uint64_t calls();

/// The device that was current when `function` was called last; -1: never.
[[nodiscard]] int device_of_last(char const* function);

/// Plans a failure of the `nth` call from here on: of one function, or of any. It happens once; the
/// call returns `status`, latches it, and does nothing else, unless it is one that frees or
/// destroys: that does its work all the same, since what it returns is the error of something
/// earlier. Asking for errors and their names never fails.
/// With `times`, the calls after it fail as well.
void fail(char const* function, cudaError_t status, std::uint64_t nth = 1, std::uint64_t times = 1);
void fail_nth(std::uint64_t nth, cudaError_t status);
/// Takes a plan back. Returns whether it has struck.
bool forgive();

/// Another thread comes in: `what()` is called once, before this thread's `nth` call from here on.
/// What it calls itself is not counted.
void before_call(std::uint64_t nth, std::function<void()> what);
/// Takes that back. Returns whether it has happened.
bool nobody_comes_in();

/// From here on every call fails with `status`, and clearing it does not help: a kernel broke the
/// context.
void break_context(cudaError_t status);

/// From here on `fork` waits until no other thread is inside the double, so that the child process
/// can read the counters.
void keep_across_fork();

/// From here on every call returns cudaErrorCudartUnloading, as when the process is taken down.
void unload();

} // namespace doubles::cudart
