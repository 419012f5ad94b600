// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `csv_row` writes one line of a log with RMM's columns and those of vram.

#include <vram/history/core/utf8_text.hpp> // utf8_length

#include <charconv> // to_chars
#include <cstddef>
#include <cstdint>
#include <string_view> // string_view

namespace vram {
namespace detail {

/// The first line of a log: RMM's columns, then those of vram.
inline constexpr std::string_view csv_header =
    "Thread,Time,Action,Pointer,Size,Stream,Tag,File,Line\n";

/// Formats one line of a CSV log, without an allocation. Never throws. Tags and file names are cut
/// to their last 256 bytes and quoted if necessary, with '?' for each byte that is no valid UTF-8.
class csv_row {
public:
    /// `nanoseconds` is the time since 1970; the log has the time of day in UTC.
    csv_row(unsigned thread, std::int64_t nanoseconds, std::string_view action,
            std::uint64_t pointer, std::uint64_t bytes, std::uint64_t stream, std::string_view tag,
            std::string_view file, unsigned line) noexcept {
        number(thread);
        put(',');
        time(nanoseconds);
        put(',');
        for (char const c : action) { put(c); }
        put(',');
        hexadecimal(pointer);
        put(',');
        number(bytes);
        put(',');
        number(stream);
        put(',');
        text(tag);
        put(',');
        text(file);
        put(',');
        if (line != 0) { number(line); }
        put('\n');
    }
    csv_row(csv_row const&)            = delete;
    csv_row& operator=(csv_row const&) = delete;

    [[nodiscard]] std::string_view line() const noexcept { return {room_, used_}; }

private:
    static constexpr std::size_t longest_text = 256;

    void put(char c) noexcept {
        if (used_ != sizeof room_) { room_[used_++] = c; }
    }
    void number(std::uint64_t n, int base = 10) noexcept {
        used_ = static_cast<std::size_t>(
            std::to_chars(room_ + used_, room_ + sizeof room_, n, base).ptr - room_);
    }
    void hexadecimal(std::uint64_t n) noexcept {
        put('0');
        put('x');
        number(n, 16);
    }
    void digits(std::uint64_t n, std::uint64_t scale) noexcept {
        for (; scale != 0; scale /= 10) { put(static_cast<char>('0' + n / scale % 10)); }
    }
    void time(std::int64_t nanoseconds) noexcept {
        auto const us = static_cast<std::uint64_t>(nanoseconds < 0 ? 0 : nanoseconds) / 1000;
        auto const s  = us / 1'000'000;
        digits(s / 3600 % 24, 10);
        put(':');
        digits(s / 60 % 60, 10);
        put(':');
        digits(s % 60, 10);
        put('.');
        digits(us % 1'000'000, 100'000);
    }
    void text(std::string_view value) noexcept {
        if (value.size() > longest_text) { value = value.substr(value.size() - longest_text); }
        bool const quoted = value.find_first_of(",\"\r\n") != value.npos;
        if (quoted) { put('"'); }
        for (std::size_t i = 0; i != value.size();) {
            char const c = value[i];
            if (static_cast<unsigned char>(c) < 0x80) {
                if (c == '"') { put('"'); }
                put(c == '\n' || c == '\r' ? ' ' : c); // A line break would end the row.
                ++i;
                continue;
            }
            std::size_t const length = utf8_length(value.substr(i));
            if (length == 0) { put('?'); }
            for (std::size_t k = 0; k != length; ++k) { put(value[i + k]); }
            i += length == 0 ? 1 : length;
        }
        if (quoted) { put('"'); }
    }

    std::size_t used_ = 0;
    char        room_[4 * longest_text + 200];
};

} // namespace detail
} // namespace vram
