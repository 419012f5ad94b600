// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `json_writer` writes lists, dictionaries, strings and numbers as JSON.

#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/utf8_text.hpp> // utf8_length

#include <cstddef>
#include <cstdint>
#include <string_view> // string_view

namespace vram {
namespace detail {

/// Writes one JSON value. Has the functions of `pickle_writer` (Python's pickle), so that a
/// template can write both formats.
class json_writer {
public:
    explicit json_writer(byte_file& to) : to_{to} {}

    template <class Elements>
    void list(Elements const& elements) {
        to_ << '[';
        first_ = true;
        elements();
        to_ << ']';
        first_ = false;
    }
    template <class Element>
    void item(Element const& element) {
        separate();
        element();
        first_ = false;
    }
    template <class Members>
    void dictionary(Members const& members) {
        to_ << '{';
        first_ = true;
        members();
        to_ << '}';
        first_ = false;
    }
    void key(char const* name) {
        separate();
        string(name);
        to_ << ':';
    }

    void string(std::string_view text) {
        static constexpr char digits[] = "0123456789abcdef";
        to_ << '"';
        for (std::size_t i = 0; i < text.size();) {
            std::size_t plain = i;
            while (plain < text.size() && is_plain(text[plain])) { ++plain; }
            if (plain != i) {
                to_ << text.substr(i, plain - i);
                i = plain;
                continue;
            }
            auto const c = static_cast<unsigned char>(text[i]);
            if (c == '"' || c == '\\') {
                to_ << '\\' << text[i];
            } else if (c < 0x20) {
                to_ << "\\u00" << digits[c >> 4] << digits[c & 15];
            } else {
                std::size_t const length = utf8_length(text.substr(i));
                if (length == 0) {
                    to_ << '?';
                } else {
                    to_ << text.substr(i, length);
                    i += length - 1;
                }
            }
            ++i;
        }
        to_ << '"';
    }
    void number(std::uint64_t n) { to_ << n; }
    void truth(bool value) { to_ << (value ? "true" : "false"); }

    template <class Write>
    void shared(std::uint64_t, Write const& write) {
        write();
    }

    void finish() { to_ << '\n'; }

private:
    /// Returns true for an ASCII character that JSON strings contain unescaped.
    [[nodiscard]] static bool is_plain(char c) noexcept {
        auto const byte = static_cast<unsigned char>(c);
        return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
    }
    void separate() {
        if (!first_) { to_ << ','; }
        first_ = false;
    }

    byte_file& to_;
    bool       first_ = true;
};

} // namespace detail
} // namespace vram
