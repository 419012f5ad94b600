// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `protobuf_message` collects the fields of one message in protobuf's wire format.

#include <vram/base/requirements.hpp>

#include <cstdint>
#include <string>      // string
#include <string_view> // string_view

namespace vram {
namespace detail {

/// Encodes one protobuf message: each function appends a field to `bytes()`. A nested message is
/// encoded by another object and then appended by `message`.
class protobuf_message {
public:
    /// Appends the field `field` with an integer, a Boolean value or an enumerator.
    protobuf_message& number(unsigned field, std::uint64_t value) {
        varint(std::uint64_t{field} << 3);
        varint(value);
        return *this;
    }
    protobuf_message& text(unsigned field, std::string_view value) {
        varint(std::uint64_t{field} << 3 | 2);
        varint(value.size());
        bytes_ += value;
        return *this;
    }
    protobuf_message& message(unsigned field, protobuf_message const& value) {
        return text(field, value.bytes_);
    }

    [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
    void                           clear() noexcept { bytes_.clear(); }

private:
    void varint(std::uint64_t value) {
        for (; value > 0x7F; value >>= 7) { bytes_ += static_cast<char>(value | 0x80); }
        bytes_ += static_cast<char>(value);
    }

    std::string bytes_;
};

} // namespace detail
} // namespace vram
