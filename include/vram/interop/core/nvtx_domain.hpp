// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_domain` is the domain of vram in a tool that reads NVTX.

#include <vram/base/requirements.hpp>

#include <nvtx3/nvToolsExt.h> // nvtxDomainCreateA

#include <mutex> // mutex

namespace vram {
namespace detail {

/// Held while a heap or a counter group is registered with NVTX. The first call of each kind looks
/// for a tool, and two first calls at once would race.
inline constinit std::mutex nvtx_registration{};

/// Returns the NVTX domain "vram", or null without a tool. A program must define `NVTX_DISABLE` in
/// all of its files or in none, because the linker keeps one definition of this function.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("vram");
    return made;
}

} // namespace detail
} // namespace vram
