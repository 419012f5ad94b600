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

/// Returns vram's NVTX domain, by which a tool groups its rows. Null if there is no tool, or if
/// `NVTX_DISABLE` is defined, which must be so in all files of a program or in none.
[[nodiscard]] inline nvtxDomainHandle_t nvtx_domain() noexcept {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("vram");
    return made;
}

} // namespace detail
} // namespace vram
