// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `minimal_resource` has the synchronous pair of functions, and no power.

#include <vram/concepts/powers.hpp>      // the concepts that the proofs below check
#include <vram/source/host_platform.hpp> // host_platform
#include <vram/source/host_resource.hpp> // its device_resource

#include <cstddef> // size_t

namespace doubles {

/// Every layer must work over it. Move-only.
template <class Platform = vram::host_platform>
class minimal_resource {
public:
    using platform   = Platform;
    using source     = typename platform::device_resource;
    using properties = typename source::properties;

    minimal_resource()                              = default;
    minimal_resource(minimal_resource&&)            = default;
    minimal_resource& operator=(minimal_resource&&) = default;

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return source_.allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        source_.deallocate_sync(p, n, a);
    }

    friend bool operator==(minimal_resource const&, minimal_resource const&) { return true; }

private:
    source source_{};
};

static_assert(vram::synchronous_resource<minimal_resource<>> &&
              !vram::resource<minimal_resource<>>);
static_assert(!vram::fallible_resource<minimal_resource<>> &&
              !vram::owning_resource<minimal_resource<>>);

} // namespace doubles
