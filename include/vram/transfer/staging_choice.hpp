// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_choice` is the way that bytes take between the host and the device.

namespace vram {

/// The ways, and why each is taken.
enum class staging_choice : unsigned char {
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

/// The word for it.
[[nodiscard]] constexpr char const* name(staging_choice choice) noexcept {
    switch (choice) {
    case staging_choice::nothing: return "nothing";
    case staging_choice::direct_pinned: return "direct_pinned";
    case staging_choice::direct_managed: return "direct_managed";
    case staging_choice::direct_host_page_tables: return "direct_host_page_tables";
    case staging_choice::direct_small: return "direct_small";
    case staging_choice::one_thread: return "one_thread";
    case staging_choice::ring: return "ring";
    case staging_choice::batched: return "batched";
    case staging_choice::gds: return "gds";
    }
    return "unknown";
}

/// The reason, as a sentence.
[[nodiscard]] constexpr char const* reason(staging_choice choice) noexcept {
    switch (choice) {
    case staging_choice::nothing: return "there are no bytes to move";
    case staging_choice::direct_pinned: return "the host's memory is pinned already";
    case staging_choice::direct_managed: return "the memory is managed, and moves by itself";
    case staging_choice::direct_host_page_tables:
        return "the device reads the host's memory through the host's own page tables";
    case staging_choice::direct_small: return "so few bytes are copied as fast by the platform";
    case staging_choice::one_thread: return "for so few bytes other threads would wake too late";
    case staging_choice::ring: return "many bytes of pageable memory or a file";
    case staging_choice::batched: return "many small copies begin with one call";
    case staging_choice::gds: return "the file system gives the file to the device directly";
    }
    return "unknown";
}

} // namespace vram
