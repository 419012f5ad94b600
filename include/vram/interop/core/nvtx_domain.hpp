// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_domain` is the domain of vram in a tool that reads NVTX.

#include <vram/base/requirements.hpp>

#include <nvtx3/nvToolsExt.h> // nvtxDomainCreateA

#include <mutex> // mutex

namespace vram {
namespace detail {

/// The first call of a part of NVTX looks for a tool. A thread makes such a call while it holds
/// this mutex: two threads that made it at the same time would race within NVTX.
inline constinit std::mutex nvtx_registration{};

/// Returns the NVTX domain "vram", under which a tool groups the rows of vram. Returns null if no
/// tool is attached, or if the program defines `NVTX_DISABLE`, in all of its files or in none.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("vram");
    return made;
}

} // namespace detail
} // namespace vram
