// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_ranges` shows the work of threads in Nsight, through NVTX.

#include <vram/base/requirements.hpp>

#if defined VRAM_NVTX && __has_include(<nvtx3/nvToolsExt.h>)
#define VRAM_HAS_NVTX
#include <nvtx3/nvToolsExt.h> // nvtxRangeStartA, nvtxNameOsThreadA
#endif

#ifdef VRAM_HAS_NVTX
#include <sys/syscall.h> // SYS_gettid
#include <unistd.h>      // syscall
#endif

#include <cstdint>

namespace vram {
namespace detail {

#ifdef VRAM_HAS_NVTX
/// Shows ranges of work and names of threads in Nsight through NVTX. A range may end on another
/// thread than it began on.
struct cuda_ranges {
    static std::uint64_t begin_range(char const* name) noexcept { return nvtxRangeStartA(name); }
    static void          end_range(std::uint64_t range) noexcept { nvtxRangeEnd(range); }
    static void          name_thread(char const* name) noexcept {
        nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), name);
    }
};
#else
/// An empty base, used if the program is compiled without `VRAM_NVTX` or if NVTX is not installed.
/// No ranges are shown in Nsight.
struct cuda_ranges {};
#endif

} // namespace detail
} // namespace vram

#undef VRAM_HAS_NVTX
