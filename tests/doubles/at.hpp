// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `at` makes an address that nothing lies at, for bookkeeping that never looks there.

#include <cstdint> // uintptr_t

namespace doubles {

[[nodiscard]] inline void* at(std::uintptr_t address) noexcept {
    return reinterpret_cast<void*>(address);
}

} // namespace doubles
