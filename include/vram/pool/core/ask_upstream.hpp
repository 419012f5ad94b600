// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ask_upstream` allocates from a resource and turns a refusal into a null pointer.

#include <vram/base/call_site.hpp>
#include <vram/concepts/powers.hpp> // resource, fallible_resource
#include <vram/concepts/sited.hpp>

#include <cstddef>
#include <new> // bad_alloc

namespace vram {
namespace detail {

/// Allocates `bytes` from the upstream `up`. If `on` is not null and `up` is stream-ordered,
/// allocates on the stream `on`. If `up` refuses the request, throws `std::bad_alloc` if `Throwing`
/// is true, and otherwise returns null.
///
/// Failure   Other errors are thrown. If `Throwing` is false and `up` has `try_allocate`, they are
///           instead reported to the error sink (the function for errors that cannot be thrown),
///           and null is returned.
template <bool Throwing, synchronous_resource Upstream>
[[nodiscard]] void* ask_upstream(Upstream& up, typename Upstream::platform::stream const* on,
                                 std::size_t bytes, std::size_t alignment,
                                 call_site at = call_site::current()) {
    sited const from{up, at};
    if constexpr (!Throwing && fallible_resource<Upstream>) {
        if constexpr (resource<Upstream>) {
            if (on != nullptr) { return from.try_allocate(*on, bytes, alignment); }
        }
        return from.try_allocate_sync(bytes, alignment);
    } else {
        try {
            if constexpr (resource<Upstream>) {
                if (on != nullptr) { return from.allocate(*on, bytes, alignment); }
            }
            return from.allocate_sync(bytes, alignment);
        } catch (std::bad_alloc const&) {
            if constexpr (Throwing) { throw; }
            return nullptr;
        }
    }
}

} // namespace detail
} // namespace vram
