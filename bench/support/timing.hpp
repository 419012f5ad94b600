// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Measures the duration of an operation, and computes statistics of such values.

#include <algorithm> // sort
#include <chrono>    // steady_clock
#include <cmath>     // exp, log
#include <cstddef>   // size_t
#include <vector>

namespace bench {

using clock       = std::chrono::steady_clock;
using nanoseconds = std::chrono::nanoseconds;

inline double ns_since(clock::time_point start) {
    return static_cast<double>(nanoseconds{clock::now() - start}.count());
}

/// Makes the compiler assume that the pointer and all memory are read, so that no allocation is
/// removed.
inline void keep(void* p) { asm volatile("" : : "g"(p) : "memory"); }

/// Calls `batch()`, which runs `operations` operations, until the turn is over; returns nanoseconds
/// per operation. The clock is read once per batch.
template <class Batch>
double ns_per_operation(nanoseconds turn, std::size_t operations, Batch batch) {
    std::size_t done  = 0;
    auto const  start = clock::now();
    double      spent = 0;
    do {
        batch();
        done += operations;
        spent = ns_since(start);
    } while (spent < static_cast<double>(turn.count()));
    return spent / static_cast<double>(done);
}

/// Returns the quantile `part` of the values, interpolated linearly.
inline double quantile(std::vector<double> values, double part) {
    std::sort(values.begin(), values.end());
    double const at    = part * static_cast<double>(values.size() - 1);
    auto const   below = static_cast<std::size_t>(at);
    auto const   above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}
inline double median(std::vector<double> const& values) { return quantile(values, 0.5); }

/// Returns the spread of the turns: the ninth minus the first decile, over the median.
inline double spread(std::vector<double> const& values) {
    double const middle = median(values);
    return middle == 0 ? 0 : (quantile(values, 0.9) - quantile(values, 0.1)) / middle;
}

inline double geometric_mean(std::vector<double> const& values) {
    double sum = 0;
    for (double const value : values) { sum += std::log(value); }
    return std::exp(sum / static_cast<double>(values.size()));
}

} // namespace bench
