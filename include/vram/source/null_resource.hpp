// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `null_resource` refuses every allocation.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/powers.hpp> // the concepts that the proofs below check
#include <vram/source/host_platform.hpp>

#include <cstddef>

namespace vram {

/// Refuses every allocation except those of zero bytes, which return null. For the end of a
/// `fallback`, and for `static_assert`s.
///
///     fallback mr{small_budget, null_resource<>{}};   // refuses if the budget is used up
///
/// Failure   `allocate` throws `out_of_memory`. A free of a non-null pointer is reported as
///           `error_kind::foreign_pointer`.
/// Threads   Any thread may call.
template <class Platform = host_platform>
class null_resource {
public:
    using platform   = Platform;
    using stream     = typename platform::stream;
    using properties = property_set<device_accessible, host_accessible>;

    [[nodiscard]] void* allocate(stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        if (bytes == 0) { return nullptr; }
        throw out_of_memory{{.asked = bytes, .rounded = bytes, .alignment = alignment}};
    }

    [[nodiscard]] void* try_allocate(stream, std::size_t,
                                     std::size_t = default_alignment) noexcept {
        return nullptr;
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t, std::size_t = default_alignment) noexcept {
        return nullptr;
    }

    void deallocate(stream, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        deallocate_sync(p, bytes, alignment, at);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        // This resource allocates nothing, so any other pointer is foreign.
        if (p == nullptr) { return; }
        detail::refused_free{"null_resource", p, bytes, alignment, at}.template report<platform>();
    }

    [[nodiscard]] bool         owns(void const*) const noexcept { return false; }
    [[nodiscard]] memory_usage usage() const noexcept { return {}; }
    std::size_t                trim(std::size_t = 0) noexcept { return 0; }
    void                       retire(stream) noexcept {}

    friend bool operator==(null_resource const&, null_resource const&) = default;
};

static_assert(resource<null_resource<>> && fallible_resource<null_resource<>>);
static_assert(owning_resource<null_resource<>> && measured_resource<null_resource<>>);
static_assert(trimmable_resource<null_resource<>> && retiring_resource<null_resource<>>);

} // namespace vram
