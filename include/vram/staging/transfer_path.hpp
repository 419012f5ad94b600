// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `transfer_path` is the way in which bytes are copied between the host and the device.

#include <vram/base/requirements.hpp>

namespace vram {

/// The ways in which vram copies bytes between host and device. `reason(path)` returns a sentence
/// that says why a copy takes the way `path`.
enum class transfer_path : unsigned char {
    nothing,
    direct_pinned,
    direct_managed,
    direct_host_page_tables,
    direct_small,
    one_thread,
    ring,
    batched,
    gds,
};

[[nodiscard]] constexpr char const* name(transfer_path path) noexcept {
    switch (path) {
    case transfer_path::nothing: return "nothing";
    case transfer_path::direct_pinned: return "direct_pinned";
    case transfer_path::direct_managed: return "direct_managed";
    case transfer_path::direct_host_page_tables: return "direct_host_page_tables";
    case transfer_path::direct_small: return "direct_small";
    case transfer_path::one_thread: return "one_thread";
    case transfer_path::ring: return "ring";
    case transfer_path::batched: return "batched";
    case transfer_path::gds: return "gds";
    }
    return "unknown";
}

/// Returns a sentence that says why the way `path` is chosen.
[[nodiscard]] constexpr char const* reason(transfer_path path) noexcept {
    switch (path) {
    case transfer_path::nothing: return "there are no bytes to move";
    case transfer_path::direct_pinned: return "the host's memory is pinned already";
    case transfer_path::direct_managed: return "the memory is managed, so the driver moves it";
    case transfer_path::direct_host_page_tables:
        return "the device reads the host's memory through the host's own page tables";
    case transfer_path::direct_small: return "the platform copies so few bytes as fast";
    case transfer_path::one_thread: return "other threads would wake too late for so few bytes";
    case transfer_path::ring: return "many bytes of pageable memory or a file";
    case transfer_path::batched: return "many small copies begin with one call";
    case transfer_path::gds:
        return "the device reads or writes the file directly (GPUDirect Storage)";
    }
    return "unknown";
}

} // namespace vram
