// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The durations and the steady clock of `std::chrono`.

#include <vram/base/requirements.hpp>

// <mutex> declares the durations and time points of <chrono> without its calendars, which take nvcc
// a third of a second for each file.
#include <mutex> // nanoseconds, steady_clock
