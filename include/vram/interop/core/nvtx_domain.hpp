// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_domain` is the domain of vram in a tool that reads NVTX.

#include <vram/base/requirements.hpp>

#include <nvtx3/nvToolsExt.h> // nvtxDomainCreateA

#include <mutex> // mutex

namespace vram {
namespace detail {

/// Held for the first call of a part of NVTX, which looks for a tool: two threads that did so at
/// once would race.
inline constinit std::mutex nvtx_registration{};

/// Returns the NVTX domain "vram", or null without a tool. The program defines `NVTX_DISABLE` in
/// all of its files or in none.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("vram");
    return made;
}

} // namespace detail
} // namespace vram
