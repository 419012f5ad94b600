// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_kind` classifies an address: pageable, pinned, managed or device memory.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as

namespace vram {

/// The kinds of memory. The kinds of the two ends of a copy determine how vram makes the copy.
enum class memory_kind : unsigned char {
    pageable, ///< ordinary host memory, which the driver copies through pinned memory
    pinned,   ///< page-locked host memory (`cudaHostAlloc`), to which the device has direct access
    managed,  ///< memory with pages that migrate to the processor that accesses them
    device,   ///< memory of a device, such as that from `cudaMalloc`
};

[[nodiscard]] constexpr char const* name(memory_kind kind) noexcept {
    switch (kind) {
    case memory_kind::pageable: return "pageable";
    case memory_kind::pinned: return "pinned";
    case memory_kind::managed: return "managed";
    case memory_kind::device: return "device";
    }
    return "unknown";
}

/// A platform that classifies addresses through `P::memory_kind_of(p)`. For an address that the
/// device API does not know, it returns `memory_kind::pageable`.
template <class P>
concept knows_memory = requires(void const* p) {
    { P::memory_kind_of(p) } -> std::same_as<memory_kind>;
};

/// A platform whose `P::uses_host_page_tables(device)` returns true if the device accesses pageable
/// host memory directly, so that pinning gains nothing.
template <class P>
concept knows_page_tables = requires(typename P::device d) {
    { P::uses_host_page_tables(d) } -> std::same_as<bool>;
};

} // namespace vram
