// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dlpack_error` is thrown for a DLPack tensor that cannot be used as requested.

#include <vram/base/core/what_text.hpp>
#include <vram/interop/core/dlpack_tensor.hpp> // dlpack_type, name_of

#include <exception> // exception
#include <string>    // string, to_string

namespace vram {

/// Thrown for a tensor that cannot be used as requested: of another DLPack version, device, element
/// type, alignment or shape, with gaps, or read-only.
///
///     try {
///         dlpack const input{tensor, stream};
///         use(input.as<float const>());
///     } catch (dlpack_error const& e) { std::puts(e.what()); } // float64, not float32
class dlpack_error : public std::exception {
public:
    /// Makes an error with a text that begins with "vram: a DLPack tensor ".
    explicit dlpack_error(char const* text) noexcept : text_{text} {}
    /// Makes an error with a number after the text.
    dlpack_error(char const* text, long long number) noexcept
        : text_{text, [&] { return std::string{text} + ": " + std::to_string(number); }} {}
    /// Makes an error with the names of two element types: the tensor's, and the requested one.
    dlpack_error(char const* text, detail::dlpack_type found, detail::dlpack_type wanted) noexcept
        : text_{text, [&] {
                    return std::string{text} + ": " + name_of(found) + ", not " + name_of(wanted);
                }} {}

    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

private:
    detail::what_text text_;
};

} // namespace vram
