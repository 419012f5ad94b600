// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ask_upstream` asks a resource of any kind for a chunk, and turns a refusal into a null pointer.

#include <vram/concepts/powers.hpp> // resource, fallible_resource

#include <cstddef> // size_t
#include <new>     // bad_alloc

namespace vram {

/// `bytes` from `up`, in the order of the stream `on` where it is not null (then `up` is
/// stream-ordered). Null where the resource says no, unless `Throwing`: then it throws as it does.
///
/// Failure   what is no refusal (a broken device) is thrown either way
/// Cost      that of the upstream; no exception where it can say no without one
template <bool Throwing, synchronous_resource Upstream>
[[nodiscard]] void* ask_upstream(Upstream& up, typename Upstream::platform::stream const* on,
                                 std::size_t bytes, std::size_t alignment) {
    if constexpr (!Throwing && fallible_resource<Upstream>) {
        if constexpr (resource<Upstream>) {
            if (on != nullptr) { return up.try_allocate(*on, bytes, alignment); }
        }
        return up.try_allocate_sync(bytes, alignment);
    } else {
        try {
            if constexpr (resource<Upstream>) {
                if (on != nullptr) { return up.allocate(*on, bytes, alignment); }
            }
            return up.allocate_sync(bytes, alignment);
        } catch (std::bad_alloc const&) {
            if constexpr (Throwing) { throw; }
            return nullptr;
        }
    }
}

} // namespace vram
