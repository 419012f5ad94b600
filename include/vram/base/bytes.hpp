// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bytes` prints a size with a unit, such as "1.50 GiB"; `64_MiB` is a size literal.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdio> // snprintf
#include <limits> // numeric_limits

namespace vram {

/// A number of bytes that is printed with a unit: `bytes{1610612736}` prints "1.50 GiB". The units
/// are powers of 1024.
struct bytes {
    /// The size in bytes.
    std::size_t count = 0;

    /// The printed size as a string of at most 23 characters, stored in this object.
    struct text_type {
        char chars[24];

        /// Returns the text as a C string.
        [[nodiscard]] char const* c_str() const noexcept { return chars; }
    };

    /// Returns the size with at most three significant digits and the unit. Calls `snprintf` once.
    [[nodiscard]] text_type text() const noexcept {
        static constexpr char const* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        constexpr std::size_t        last    = sizeof units / sizeof *units - 1;
        text_type                    out{};
        auto                         value = static_cast<double>(count);
        std::size_t                  unit  = 0;
        // A value of 999.5 or more would have four digits, so 1000 KiB is printed as 0.98 MiB.
        while (value >= 999.5 && unit != last) {
            value /= 1024;
            ++unit;
        }
        int const digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
        std::snprintf(out.chars, sizeof out.chars, "%.*f %s", digits, value, units[unit]);
        return out;
    }

    friend bool operator==(bytes, bytes) = default;

    /// Prints the size with its unit. `Stream` is any type that accepts a C string by `<<`, so this
    /// header needs no `<ostream>`.
    template <class Stream>
        requires requires(Stream& s, char const* c) { s << c; }
    friend Stream& operator<<(Stream& stream, bytes b) {
        stream << b.text().c_str();
        return stream;
    }
};

/// Size literals such as `64_MiB` (a power of 1024) and `1_GB` (1e9 bytes). A literal that is too
/// large does not compile.
inline namespace literals {

namespace literal {
consteval std::size_t times(unsigned long long n, unsigned long long unit) {
    if (n > std::numeric_limits<std::size_t>::max() / unit) { throw "size literal does not fit"; }
    return static_cast<std::size_t>(n * unit);
}
} // namespace literal

// clang-format off
consteval std::size_t operator""_B  (unsigned long long n) { return literal::times(n, 1); }
consteval std::size_t operator""_KiB(unsigned long long n) { return literal::times(n, 1ULL << 10); }
consteval std::size_t operator""_MiB(unsigned long long n) { return literal::times(n, 1ULL << 20); }
consteval std::size_t operator""_GiB(unsigned long long n) { return literal::times(n, 1ULL << 30); }
consteval std::size_t operator""_TiB(unsigned long long n) { return literal::times(n, 1ULL << 40); }
consteval std::size_t operator""_GB (unsigned long long n) { return literal::times(n, 1000000000); }
// clang-format on

} // namespace literals

} // namespace vram
