// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pickle_writer` writes lists, dictionaries, strings and numbers as a Python pickle.

#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/utf8_text.hpp>

#include <cstddef>
#include <cstdint>
#include <string>        // string
#include <string_view>   // string_view
#include <unordered_map> // unordered_map
#include <vector>        // vector

namespace vram {
namespace detail {

/// Writes one value as a Python pickle (protocol 2), with the opcodes that PyTorch's memory viewer
/// knows. Throws `file_error`, `std::bad_alloc`.
///
///     pickle_writer to{file};
///     to.list([&] { to.item([&] { to.number(1); }); });
///     to.finish();
class pickle_writer {
public:
    explicit pickle_writer(byte_file& to) : to_{to} { to_ << "\x80\x02"; }

    /// Writes a list. `elements()` must call `item(element)` once for each element, and `element()`
    /// must write that element.
    template <class Elements>
    void list(Elements const& elements) {
        to_ << ']';
        counts_.push_back(0);
        elements();
        if (counts_.back() != 0) { to_ << 'e'; }
        counts_.pop_back();
    }
    template <class Element>
    void item(Element const& element) {
        if (counts_.back() == 0) { to_ << '('; }
        ++counts_.back();
        element();
        if (counts_.back() == piece) {
            to_ << 'e';
            counts_.back() = 0;
        }
    }
    /// Writes a dictionary. For each entry, `members()` must call `key(name)` and then write a
    /// value.
    template <class Members>
    void dictionary(Members const& members) {
        to_ << "}(";
        members();
        to_ << 'u';
    }
    void key(char const* name) { string(name); }

    void string(std::string_view text) {
        auto const found = strings_.find(std::string{text});
        if (found != strings_.end()) { return get(found->second); }
        std::string const valid = utf8_text(text);
        to_ << 'X';
        little_endian(valid.size(), 4);
        to_ << valid;
        strings_.emplace(text, put());
    }
    void number(std::uint64_t n) {
        if (n < 0x100) {
            to_ << 'K';
            little_endian(n, 1);
        } else if (n < 0x10000) {
            to_ << 'M';
            little_endian(n, 2);
        } else if (n < 0x80000000) {
            to_ << 'J';
            little_endian(n, 4);
        } else { // signed: the highest bit of the last byte is 0
            unsigned bytes = 4;
            while (bytes < 9 && (bytes == 8 ? n >> 63 : n >> (8 * bytes - 1)) != 0) { ++bytes; }
            to_ << '\x8a';
            little_endian(bytes, 1);
            little_endian(n, bytes < 9 ? bytes : 8);
            if (bytes == 9) { to_ << '\0'; }
        }
    }
    void truth(bool value) { to_ << (value ? '\x88' : '\x89'); }

    /// Writes a value that may occur several times; `which` identifies the value. The first call
    /// lets `write()` write the value, and later calls write a reference to it.
    template <class Write>
    void shared(std::uint64_t which, Write const& write) {
        auto const found = shared_.find(which);
        if (found != shared_.end()) { return get(found->second); }
        write();
        shared_.emplace(which, put());
    }

    void finish() { to_ << '.'; }

private:
    /// Largest number of elements in one piece of a list. The viewer passes the elements of a piece
    /// as arguments of one JavaScript call, and the number of arguments is limited.
    static constexpr std::size_t piece = 1000;

    void little_endian(std::uint64_t n, unsigned bytes) {
        for (unsigned i = 0; i != bytes; ++i) { to_.byte(static_cast<unsigned>(n >> (8 * i))); }
    }
    [[nodiscard]] std::uint32_t put() {
        to_ << (stored_ < 0x100 ? 'q' : 'r');
        little_endian(stored_, stored_ < 0x100 ? 1 : 4);
        return stored_++;
    }
    void get(std::uint32_t at) {
        to_ << (at < 0x100 ? 'h' : 'j');
        little_endian(at, at < 0x100 ? 1 : 4);
    }

    byte_file& to_;
    /// For each list that is being written: number of elements in the piece that is being written
    /// (see `piece`). The outermost list is first.
    std::vector<std::size_t>                         counts_;
    std::unordered_map<std::string, std::uint32_t>   strings_;
    std::unordered_map<std::uint64_t, std::uint32_t> shared_;
    std::uint32_t                                    stored_ = 0;
};

} // namespace detail
} // namespace vram
