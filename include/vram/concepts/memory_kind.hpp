// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_kind` is what an address is to the device: plain host memory, pinned, managed, its own.

#include <concepts> // same_as

namespace vram {

/// How the device gets at memory, and so how it is best copied.
enum class memory_kind : unsigned char {
    pageable, ///< plain host memory: a copy goes through memory that is pinned
    pinned,   ///< host memory that stays where it is: a copy goes straight
    managed,  ///< moves to whoever touches it
    device,   ///< of a device
};

/// The word for it.
[[nodiscard]] constexpr char const* name(memory_kind kind) noexcept {
    switch (kind) {
    case memory_kind::pageable: return "pageable";
    case memory_kind::pinned: return "pinned";
    case memory_kind::managed: return "managed";
    case memory_kind::device: return "device";
    }
    return "unknown";
}

/// Whether the machine knows its memory: `P::memory_kind_of(p)`. What it has never heard of is
/// pageable.
template <class P>
concept knows_memory = requires(void const* p) {
    { P::memory_kind_of(p) } -> std::same_as<memory_kind>;
};

/// Whether the machine says if a device reads plain host memory through the host's own page tables
/// (Grace Hopper does), so that nothing is gained by pinning: `P::uses_host_page_tables(device)`.
template <class P>
concept knows_page_tables = requires(typename P::device d) {
    { P::uses_host_page_tables(d) } -> std::same_as<bool>;
};

} // namespace vram
