// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `meeting_of` is the type with which host threads wait for each other on a platform.

#include <vram/base/core/meeting.hpp>

#include <type_traits> // conditional_t, is_same_v

namespace vram {
namespace detail {

class gate; // mutex with a condition variable, see base/core/gate.hpp

/// The type with which host threads wait for each other: `meeting` (a mutex with a condition
/// variable), or the platform's own gate type, for example that of the simulated platform.
template <class Platform>
using meeting_of = std::conditional_t<std::is_same_v<typename Platform::gate, gate>, meeting,
                                      typename Platform::gate>;

} // namespace detail
} // namespace vram
