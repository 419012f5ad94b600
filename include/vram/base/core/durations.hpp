// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The durations and the steady clock of `std::chrono`.

#include <vram/base/requirements.hpp>

// Includes <mutex> instead of <chrono>: <mutex> declares functions with durations and time points,
// so it provides these types. <chrono> also provides calendars, and with them string streams. It
// adds a third of a second to the time that nvcc takes for a file.
#include <mutex> // nanoseconds, steady_clock
