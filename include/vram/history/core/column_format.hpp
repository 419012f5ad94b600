// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `column_format` describes the file of `history_columns`, and encodes and decodes its numbers.

#include <vram/data/file_error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>      // string
#include <string_view> // string_view

namespace vram {
namespace detail {

/// The file format of `history_columns`. A file begins with the eight characters of `magic` or
/// `magic_with_escape`. Then come the members of `history_record` in the rows below. The values
/// after "count" are repeated for each entry. The first entry of tags, sites, resources and stacks
/// is empty, and left out. A number is an LEB128 integer. A text is its size, and then its bytes.
///
///     device, overwritten
///     tags:      count, then text
///     sites:     count, then file, function, line
///     resources: count, then name, identity
///     stacks:    count, then the number of addresses and the addresses
///     chunks:    count, then memory, bytes, resource, grows
///     contexts:  count, then kind, has_stream, thread, tag, site, resource, stack, stream
///     events:    count, `shift`, and four columns, each of which begins with its size in bytes:
///                index in the contexts; time; address without its `shift` lowest bits;
///                bytes + 1, or 0 if the last event before it at this address has as many bytes
///
/// Times and addresses are stored as differences from the event before. The numbers 0, 1, 2, 3 mean
/// the differences 0, -1, 1, -2 (zigzag). If `bytes` of an event is `escape - 1` or more, the last
/// column has `escape`, then `bytes`. Such a file begins with `magic_with_escape`.
struct column_format {
    static constexpr std::string_view magic             = "VRAMHIS1";
    static constexpr std::string_view magic_with_escape = "VRAMHIS2";
    static constexpr std::uint64_t    escape            = ~std::uint64_t{0};

    [[nodiscard]] static std::uint64_t zigzag(std::uint64_t difference) noexcept {
        return difference << 1 ^ (std::uint64_t{0} - (difference >> 63));
    }
    [[nodiscard]] static std::uint64_t unzigzag(std::uint64_t stored) noexcept {
        return stored >> 1 ^ (std::uint64_t{0} - (stored & 1));
    }
    static void append(std::string& to, std::uint64_t n) {
        for (; n > 0x7F; n >>= 7) { to += static_cast<char>(n | 0x80); }
        to += static_cast<char>(n);
    }
    static void append(std::string& to, std::string_view text) {
        append(to, std::uint64_t{text.size()});
        to += text;
    }
};

/// Reads numbers and texts in the encoding of `column_format` from memory. If a read goes beyond
/// the end, or a number has more than 64 bits, throws `file_error`.
class column_reader {
public:
    column_reader(std::string_view from, std::string const& path, std::size_t offset = 0) noexcept
        : from_{from}, path_{path}, offset_{offset} {}

    [[nodiscard]] std::uint64_t number() {
        std::uint64_t n = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (at_ == from_.size()) { fail(file_error::reason::ends_early); }
            auto const byte = static_cast<unsigned char>(from_[at_++]);
            if (shift == 63 && byte > 1) { break; }
            n |= std::uint64_t{byte & 0x7FU} << shift;
            if ((byte & 0x80) == 0) { return n; }
        }
        fail(file_error::reason::damaged);
    }
    /// Returns the next number of the file. Throws `file_error` if it is larger than `most`.
    [[nodiscard]] std::uint64_t number(std::uint64_t most) {
        std::uint64_t const n = number();
        if (n > most) { fail(file_error::reason::damaged); }
        return n;
    }
    /// Reads and returns the number of entries of the list that follows. Throws `file_error` if too
    /// few bytes are left for so many entries of `each` bytes.
    [[nodiscard]] std::size_t count(std::size_t each) {
        std::uint64_t const n = number();
        if (n > (from_.size() - at_) / each) { fail(file_error::reason::ends_early); }
        return static_cast<std::size_t>(n);
    }
    [[nodiscard]] std::string_view text() {
        std::size_t const size = count(1);
        at_ += size;
        return from_.substr(at_ - size, size);
    }
    /// Returns a reader of the next column of events, which begins with its size in bytes. The next
    /// read by this object begins behind the column.
    [[nodiscard]] column_reader part() {
        std::string_view const bytes = text();
        return {bytes, path_, offset_ + at_ - bytes.size()};
    }
    [[noreturn]] void fail(file_error::reason why) const {
        throw file_error{why, path_, offset_ + at_, 1};
    }
    [[nodiscard]] bool at_end() const noexcept { return at_ == from_.size(); }

private:
    std::string_view   from_;
    std::string const& path_;
    std::size_t        offset_; ///< offset in the file of the first byte that this reader reads
    std::size_t        at_ = 0;
};

} // namespace detail
} // namespace vram
