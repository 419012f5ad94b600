// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `at` returns a fake address, for bookkeeping that never dereferences it.

#include <cstdint> // uintptr_t

namespace doubles {

[[nodiscard]] inline void* at(std::uintptr_t address) noexcept {
    return reinterpret_cast<void*>(address);
}

} // namespace doubles
